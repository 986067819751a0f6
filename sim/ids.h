/// Indices of ops, tensors, edges and devices as distinct types; vectors indexed by one of them,
/// and sets of them.
#pragma once
#include <algorithm>
#include <bit>
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

/// `small`: all ids are below 64.
template <class Id, bool small = false>
class IdSet {
 public:
  /// For ids below `size`.
  explicit IdSet(std::size_t size = 0) : wide_(size > 64), rest_(wide_ ? (size - 1) / 64 : 0, 0) {}

  bool empty() const {
    return first_ == 0 &&
           (!wide() || std::ranges::all_of(rest_, [](std::uint64_t w) { return w == 0; }));
  }
  void insert(Id d) {
    std::uint64_t& word = !wide() || index(d) < 64 ? first_ : rest_[index(d) / 64 - 1];
    word |= std::uint64_t{1} << (index(d) % 64);
  }
  void insert(const IdSet& other) {
    first_ |= other.first_;
    if (!wide()) return;
    for (std::size_t i = 0; i < rest_.size(); ++i) rest_[i] |= other.rest_[i];
  }
  void clear() {
    first_ = 0;
    if (wide()) std::ranges::fill(rest_, 0);
  }
  /// Removes each id and calls `visit` for it. Ids that `visit` inserts may or may not be visited.
  void drain(auto visit) {
    drain(first_, 0, visit);
    if (!wide()) return;
    for (std::size_t i = 0; i < rest_.size(); ++i) drain(rest_[i], 64 * (i + 1), visit);
  }

 private:
  bool wide() const { return !small && wide_; }

  static void drain(std::uint64_t& word, std::size_t base, auto& visit) {
    for (std::uint64_t w = std::exchange(word, 0); w != 0; w &= w - 1)
      visit(static_cast<Id>(base + static_cast<std::size_t>(std::countr_zero(w))));
  }

  std::uint64_t first_ = 0;  // ids below 64, without allocation
  bool wide_;
  std::vector<std::uint64_t> rest_;
};

using DeviceSet = IdSet<DeviceId>;

}  // namespace baechi
