/// Arrays that Python and this program share: NumPy arrays, or memoryviews where there is no NumPy.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/ids.h"

namespace baechi::python {

namespace py = pybind11;

/// Numbers in memory of the program, read-only, `stride` bytes apart; `owner` keeps them alive.
struct Column {
  std::shared_ptr<const void> owner;
  const void* first = nullptr;
  std::size_t size = 0, item = 0, stride = 0;
  std::string format{};  ///< of Python's struct module
};
void define_column(py::module_& m);

/// numpy.asarray(column), or memoryview(column) where NumPy is not installed. Nothing is copied.
py::object array_of(Column column);

/// A member of each of `size` structs that lie side by side, in place: `first` is that of the
/// first.
template <class Struct, class T>
py::object member_array(std::shared_ptr<const void> owner, const T* first, std::size_t size) {
  return array_of({std::move(owner), first, size, sizeof(T), sizeof(Struct),
                   py::format_descriptor<T>::format()});
}

/// A list of numbers that Python then owns.
template <class T>
py::object owned_array(std::vector<T> values) {
  const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  return array_of(
      {kept, kept->data(), kept->size(), sizeof(T), sizeof(T), py::format_descriptor<T>::format()});
}

/// The numbers of a sequence or array of Python; `what` names it in messages. Throws InputError if
/// there is anything else in it, or if their number is not `size`, unless that is 0.
std::vector<std::int64_t> whole_numbers(py::handle values, const std::string& what,
                                        std::size_t size = 0);
std::vector<double> numbers(py::handle values, const std::string& what, std::size_t size = 0);

}  // namespace baechi::python
