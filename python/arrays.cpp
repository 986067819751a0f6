#include "python/arrays.h"

#include "sim/error.h"

namespace baechi::python {
namespace {

/// The module numpy; None if it is not installed.
py::object numpy() {
  try {
    return py::module_::import("numpy");
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_ImportError)) throw;
    return py::none();
  }
}

template <class T>
std::vector<T> values_of(py::handle values, const std::string& what, std::size_t size,
                         const char* dtype, const char* wanted) {
  std::vector<T> result;
  try {
    const py::object np = numpy();
    if (!np.is_none() && py::isinstance<py::buffer>(values)) {
      const py::object array = np.attr("ascontiguousarray")(values);
      if (array.attr("ndim").cast<int>() != 1 ||
          !np.attr("can_cast")(array.attr("dtype"), dtype, "same_kind").cast<bool>())
        throw py::type_error("");
      const auto whole = array.attr("astype")(dtype).cast<py::buffer>();
      const py::buffer_info info = whole.request();
      const auto* first = static_cast<const T*>(info.ptr);
      result.assign(first, first + info.size);
    } else {
      for (const py::handle value : py::reinterpret_borrow<py::object>(values))
        result.push_back(value.cast<T>());
    }
  } catch (const py::cast_error&) {
    throw InputError(fmt::format("{}: not a list or array of {}", what, wanted));
  } catch (const py::type_error&) {
    throw InputError(fmt::format("{}: not a list or array of {}", what, wanted));
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_TypeError) && !e.matches(PyExc_ValueError)) throw;
    throw InputError(fmt::format("{}: not a list or array of {}", what, wanted));
  }
  if (size != 0 && result.size() != size)
    throw InputError(fmt::format("{}: {} values for {}", what, result.size(), size));
  return result;
}

}  // namespace

void define_column(py::module_& m) {
  py::class_<Column>(m, "Column", py::buffer_protocol(),
                     "Read-only numbers in the program's memory, which NumPy uses without a copy.")
      .def_buffer([](Column& c) {
        static const std::int64_t nothing = 0;  // a buffer needs an address
        const void* first = c.first != nullptr ? c.first : &nothing;
        return py::buffer_info(const_cast<void*>(first), static_cast<py::ssize_t>(c.item), c.format,
                               1, {static_cast<py::ssize_t>(c.size)},
                               {static_cast<py::ssize_t>(c.stride)}, true);
      })
      .def("__len__", [](const Column& c) { return c.size; });
}

py::object array_of(Column column) {
  const py::object made = py::cast(std::move(column));
  const py::object np = numpy();
  if (np.is_none()) return py::memoryview(made);
  return np.attr("asarray")(made);
}

std::vector<std::int64_t> whole_numbers(py::handle values, const std::string& what,
                                        std::size_t size) {
  return values_of<std::int64_t>(values, what, size, "int64", "whole numbers");
}

std::vector<double> numbers(py::handle values, const std::string& what, std::size_t size) {
  return values_of<double>(values, what, size, "float64", "numbers");
}

}  // namespace baechi::python
