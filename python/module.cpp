// The Python package `baechi`. python/README.md shows how it is used.
#include <pybind11/stl.h>

#include "placers/interface/registry.h"
#include "python/graph.h"
#include "scenarios/read/paths.h"
#include "traces/generator.h"

PYBIND11_MODULE(baechi, m) {
  using namespace baechi;
  m.doc() = "Places operator graphs on memory-limited devices and simulates the step that follows.";
  m.attr("__version__") = BAECHI_VERSION;
  pybind11::register_exception<InputError>(m, "InputError", PyExc_ValueError);
  pybind11::register_exception<InfeasibleError>(m, "InfeasibleError", PyExc_RuntimeError);
  python::define_column(m);
  python::define_graph(m);
  python::define_cluster(m);
  python::define_placing(m);
  python::define_results(m);
  python::define_frameworks(m);
  m.def("data_folder", &data_folder,
        "The folder of the package's scenarios, traces and papers; '' if there is none.\n\n"
        ">>> baechi.data_folder().endswith('baechi-sim')\nTrue");
  const auto names_of = [](const auto& entries) {
    std::vector<std::string> names;
    for (const auto& entry : entries) names.emplace_back(entry.name);
    return names;
  };
  m.def(
      "placers", [=] { return names_of(placers()); },
      "The names of all placers.\n\n>>> 'm_sct' in baechi.placers()\nTrue");
  m.def(
      "generators", [=] { return names_of(generators()); },
      "The names of all generators.\n\n>>> 'gnmt' in baechi.generators()\nTrue");
}
