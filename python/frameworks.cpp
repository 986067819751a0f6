#include <pybind11/stl.h>

#include <filesystem>

#include "placers/interface/registry.h"
#include "python/graph.h"
#include "scenarios/export/framework_file.h"
#include "scenarios/read/choice_text.h"

namespace baechi::python {
namespace {

/// The object that `place --export FORMAT` writes.
py::object exported(const Graph& graph, ClusterSetup& cluster, const std::string& format,
                    const std::string& placer, std::uint64_t seed,
                    const std::vector<std::string>& no_split, std::size_t stages) {
  const auto known = parse<ExportFormat>(format);
  if (!known) throw InputError("format: " + not_one_of<ExportFormat>(format));
  const Experiment experiment = cluster.experiment(graph, {});
  require_modules(experiment, *known, graph.trace->name);
  Choice choice = parse_choice(placer, "placer");
  const auto chosen = make_placer(choice.name, std::move(choice.options), choice.where);
  const py::object folder = py::module_::import("tempfile").attr("TemporaryDirectory")();
  const std::string path = folder.attr("name").cast<std::string>() + "/answer.json";
  std::string said;
  {
    const py::gil_scoped_release release_gil;
    const ExportTask task{experiment,        *chosen, choice.name, seed,
                          graph.trace->name, path,    no_split,    stages};
    said = export_placement(*known, task, experiment.place(*chosen, seed));
  }
  if (!std::filesystem::exists(path)) throw InfeasibleError(said);
  const py::object file = py::module_::import("builtins").attr("open")(path);
  return py::module_::import("json").attr("loads")(file.attr("read")());
}

}  // namespace

void define_frameworks(py::module_& m) {
  m.def(
      "export", &exported, py::arg("graph"), py::arg("cluster"), py::arg("format"),
      py::arg("placer") = "auto", py::kw_only(), py::arg("seed") = 0,
      py::arg("no_split") = std::vector<std::string>(), py::arg("stages") = 0,
      "What 'baechi place --export FORMAT' writes, as an object. `no_split`: modules, or patterns\n"
      "of their names, that stay whole; `stages`: of a pipeline, 0: as many as are fastest.");
  for (const char* name : {"device_map", "split", "explain", "plan", "run", "compare"})
    m.attr(name) = py::cpp_function(
        [name](const py::args& args, const py::kwargs& named) -> py::object {
          return py::module_::import("baechi_model").attr(name)(*args, **named);
        },
        py::name(name), py::scope(m),
        py::doc(("See help('baechi_model." + std::string(name) + "').").c_str()));
}

}  // namespace baechi::python
