/// Arrays shared with Python: NumPy arrays, or memoryviews without NumPy.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "sim/ids.h"

namespace baechi::python {

namespace py = pybind11;

/// Read-only numbers in memory, `stride` bytes apart; `owner` keeps them alive.
struct Column {
  std::shared_ptr<const void> owner;
  const void* first = nullptr;
  std::size_t size = 0, item = 0, stride = 0;
  std::string format{};  ///< format character of Python's struct module
};
void define_column(py::module_& m);

/// numpy.asarray(column), or memoryview(column) without NumPy. Does not copy.
py::object array_of(Column column);

/// A view of one member of `size` contiguous structs; `first` points to that of the first.
template <class Struct, class T>
py::object member_array(std::shared_ptr<const void> owner, const T* first, std::size_t size) {
  return array_of({std::move(owner), first, size, sizeof(T), sizeof(Struct),
                   py::format_descriptor<T>::format()});
}

/// An array that Python owns.
template <class T>
py::object owned_array(std::vector<T> values) {
  const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
  return array_of(
      {kept, kept->data(), kept->size(), sizeof(T), sizeof(T), py::format_descriptor<T>::format()});
}

/// The numbers in a Python sequence or array; `what` names it in messages. Throws InputError on
/// other elements, or if there are not `size` (0: any number).
std::vector<std::int64_t> whole_numbers(py::handle values, const std::string& what,
                                        std::size_t size = 0);
std::vector<double> numbers(py::handle values, const std::string& what, std::size_t size = 0);

}  // namespace baechi::python
