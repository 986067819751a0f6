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
      "of their names, that stay whole; `stages`: of a pipeline, 0: as many as are fastest.\n\n"
      ">>> cluster = baechi.Cluster(devices=2, memory='4 GiB', kind='h100')\n"
      ">>> gpt = baechi.generate('gpt', num_hidden_layers=2)\n"
      ">>> sorted(set(baechi.export(gpt, cluster, 'accelerate').values()))\n[0, 1]");
  // clang-format off: an example a line
  const std::vector<std::pair<const char*, const char*>> verbs{
      {"device_map", ">>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))\n"
                     ">>> baechi.device_map(model, (torch.zeros(1, 64),), {0: '20 KiB', 1: '20 KiB'}, kind='h100')\n{'0': 0, '1': 1}"},
      {"split", ">>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))\n"
                ">>> baechi.split(model, (torch.zeros(1, 64),), stages=2, kind='h100')['split_spec']\n{'1': 'beginning'}"},
      {"explain", ">>> g, c = baechi.Graph([10, 20]), baechi.Cluster(devices=2, memory='1 GiB')\n"
                  ">>> baechi.explain(g, baechi.place(g, c), devices=2, memory='1 GiB')['step_time_us']\n20.0"},
      {"plan", ">>> baechi.plan('gpt', batch=8, devices=2, nodes='dgx_a100')['status']\n'ok'"},
      {"run", ">>> len(baechi.run('slow_link'))\n16"},
      {"compare", ">>> rows = baechi.run('slow_link', output='slow')\n>>> baechi.compare('slow')['points']\n4"}};
  // clang-format on
  for (const auto& [name, example] : verbs)
    m.attr(name) = py::cpp_function(
        [name](const py::args& args, const py::kwargs& named) -> py::object {
          return py::module_::import("baechi_model").attr(name)(*args, **named);
        },
        py::name(name), py::scope(m),
        py::doc(("See help('baechi_model." + std::string(name) + "').\n\n" + example).c_str()));
}

}  // namespace baechi::python
