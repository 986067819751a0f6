/// Indices of ops, tensors, edges and devices as distinct types, and vectors indexed by one of
/// them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

namespace baechi {

enum class OpId : std::uint32_t {};
enum class TensorId : std::uint32_t {};
enum class EdgeId : std::uint32_t {};
enum class DeviceId : std::uint32_t {};

/// The id as a plain number. Ids of one graph or cluster count from 0 without gaps.
template <class Id>
constexpr std::size_t index(Id id) {
  return static_cast<std::size_t>(id);
}

/// The ids first, first + 1, ..., last - 1.
template <class Id>
constexpr auto id_range(std::size_t first, std::size_t last) {
  return std::views::iota(first, last) |
         std::views::transform([](std::size_t i) { return static_cast<Id>(i); });
}

/// A vector that only an `Id` indexes: the element of `id` is at position index(id).
template <class Id, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t n, const T& value = T{}) : data_(n, value) {}

  decltype(auto) operator[](Id id) { return data_[index(id)]; }
  decltype(auto) operator[](Id id) const { return data_[index(id)]; }
  Id push_back(T value) {  ///< Returns the id of the new element.
    data_.push_back(std::move(value));
    return static_cast<Id>(data_.size() - 1);
  }
  void assign(std::size_t n, const T& value) { data_.assign(n, value); }
  void reserve(std::size_t n) { data_.reserve(n); }
  void clear() { data_.clear(); }
  std::size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  auto begin() { return data_.begin(); }
  auto end() { return data_.end(); }
  auto begin() const { return data_.begin(); }
  auto end() const { return data_.end(); }
  auto ids() const { return id_range<Id>(0, data_.size()); }
  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  std::vector<T> data_;
};

}  // namespace baechi
