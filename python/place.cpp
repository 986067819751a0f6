#include "python/place.h"

#include <pybind11/stl.h>

#include <unordered_set>

#include "placers/files/placement_file.h"
#include "placers/interface/colocation.h"
#include "placers/interface/registry.h"
#include "scenarios/read/choice_text.h"

namespace baechi::python {
namespace {

/// The argument of a Python placer: the problem, valid during the call.
struct PlacerProblem {
  const Problem* problem;
  std::uint64_t seed;
  std::shared_ptr<const OpGraph> graph;  // keeps arrays valid as long as Python holds them

  const Problem& get() const {
    if (problem == nullptr) throw InputError("a Problem is only valid while its placer runs");
    return *problem;
  }
};

using PlacerProblemPtr = std::shared_ptr<PlacerProblem>;

class PythonPlacer final : public Placer {
 public:
  PythonPlacer(py::object function, std::shared_ptr<const OpGraph> placed)
      : function_(std::move(function)),
        placed_(std::move(placed)),
        name_(py::str(py::getattr(function_, "__name__", py::str("placer"))).cast<std::string>()) {}

  Placement place(const Problem& problem, std::uint64_t seed) const override {
    const py::gil_scoped_acquire lock;
    const auto shared = std::make_shared<PlacerProblem>(PlacerProblem{&problem, seed, placed_});
    py::object answer;
    try {
      answer = function_(shared);
    } catch (py::error_already_set& e) {
      shared->problem = nullptr;
      const py::object infeasible = py::module_::import("baechi").attr("InfeasibleError");
      if (!e.matches(infeasible)) throw;
      throw InfeasibleError(py::str(e.value()).cast<std::string>());
    }
    shared->problem = nullptr;
    Placement placement = placement_of(answer, problem, name_);
    require_whole_groups(placement, problem.graph, name_);
    return placement;
  }

 private:
  py::object function_;
  std::shared_ptr<const OpGraph> placed_;  // the transformed graph, which placers get
  std::string name_;
};

py::object array_in(const PlacerProblemPtr& shared,
                    py::object (*array)(const std::shared_ptr<const void>&, const OpGraph&)) {
  BAECHI_CHECK(&shared->get().graph == shared->graph.get(), "another graph than is placed");
  return array(shared->graph, *shared->graph);
}

/// [num_ops * num_devices] The time of each op on each device, by op.
std::vector<std::int64_t> times(const Problem& p) {
  std::vector<std::int64_t> all;
  all.reserve(p.graph.num_ops() * p.cluster.num_devices());
  for (const OpId v : p.graph.ops())
    for (const DeviceId d : p.cluster.devices()) all.push_back(p.costs.compute(v, d).count());
  return all;
}

void define_problem(py::module_& m) {
  const auto column = [](py::object (*array)(const std::shared_ptr<const void>&, const OpGraph&)) {
    return [array](const PlacerProblemPtr& shared) { return array_in(shared, array); };
  };
  const auto per_device = [](auto value) {
    return [value](const PlacerProblemPtr& shared) {
      std::vector<std::int64_t> all;
      for (const DeviceId d : shared->get().cluster.devices())
        all.push_back(value(shared->get().cluster.device(d)));
      return owned_array(std::move(all));
    };
  };
  py::class_<PlacerProblem, PlacerProblemPtr>(
      m, "Problem",
      "The argument of a Python placer: the transformed graph and the cluster. Only valid while "
      "the placer runs.")
      .def_property_readonly("seed", [](const PlacerProblemPtr& a) { return a->seed; })
      .def_property_readonly("num_ops",
                             [](const PlacerProblemPtr& a) { return a->get().graph.num_ops(); })
      .def_property_readonly(
          "num_devices", [](const PlacerProblemPtr& a) { return a->get().cluster.num_devices(); })
      .def_property_readonly("memory_bytes",
                             per_device([](const Device& d) { return d.memory.count; }))
      .def_property_readonly("names",
                             [](const PlacerProblemPtr& a) { return names(a->get().graph); })
      .def_property_readonly("compute_ns", column(compute_times))
      .def_property_readonly("persistent_bytes", column(persistent_bytes))
      .def_property_readonly("temporary_bytes", column(temporary_bytes))
      .def_property_readonly("groups", column(groups),
                             "[num_ops] ops of a group are colocated; 0: no group")
      .def_property_readonly("edge_src", column(edge_sources))
      .def_property_readonly("edge_dst", column(edge_readers))
      .def_property_readonly("edge_tensor", column(edge_tensors))
      .def_property_readonly("tensor_bytes", column(tensor_bytes))
      .def_property_readonly(
          "compute_ns_by_device",
          [](const PlacerProblemPtr& a) { return owned_array(times(a->get())); },
          "[num_ops * num_devices], by op")
      .def(
          "transfer_ns",
          [](const PlacerProblemPtr& a, std::uint32_t tensor, std::uint32_t src,
             std::uint32_t dst) {
            const Problem& p = a->get();
            if (tensor >= p.graph.num_tensors() || src >= p.cluster.num_devices() ||
                dst >= p.cluster.num_devices())
              throw py::index_error("no such tensor or device");
            if (src == dst) return std::int64_t{0};
            return std::int64_t{
                p.costs.transfer(TensorId{tensor}, DeviceId{src}, DeviceId{dst}).count()};
          },
          py::arg("tensor"), py::arg("src"), py::arg("dst"));
}

PlacedGraph place(const Graph& graph, ClusterSetup& cluster, const py::object& placer,
                  std::uint64_t seed, const std::vector<std::string>& transforms) {
  const Experiment experiment = cluster.experiment(graph, transforms);
  std::shared_ptr<const Placer> chosen;
  if (py::isinstance<py::str>(placer)) {
    Choice choice = parse_choice(placer.cast<std::string>(), "placer");
    chosen = make_placer(choice.name, std::move(choice.options), choice.where);
  } else if (PyCallable_Check(placer.ptr()) != 0) {
    chosen = std::make_shared<const PythonPlacer>(placer, experiment.graph().placed);
  } else {
    throw InputError("placer: neither a name ('baechi list placers') nor a function");
  }
  std::optional<Placement> placement;
  {
    const py::gil_scoped_release release_gil;
    placement = experiment.place(*chosen, seed);
  }
  chosen.reset();  // while the GIL is held
  return {graph, std::move(*placement), cluster.num_devices()};
}

}  // namespace

Placement placement_of(const py::object& answer, const Problem& problem, const std::string& where) {
  if (py::isinstance<PlacedGraph>(answer)) {
    Placement given = answer.cast<const PlacedGraph&>().placement;
    if (given.device.size() != problem.graph.num_ops())
      throw InputError(fmt::format("{}: a placement of {} ops for {}", where, given.device.size(),
                                   problem.graph.num_ops()));
    return given;
  }
  std::vector<std::int64_t> devices;
  if (py::isinstance<py::dict>(answer)) {
    const auto by_name = answer.cast<py::dict>();
    std::unordered_set<std::string_view> known;
    for (const OpId v : problem.graph.ops()) known.insert(problem.graph.name(v));
    Mistakes mistakes;
    for (const auto& [key, device] : by_name)
      if (const auto name = py::str(key).cast<std::string>(); !known.contains(name))
        mistakes.add(fmt::format("{}: {}: the graph has no op '{}'", where, name, name));
    mistakes.throw_if_any();
    for (const OpId v : problem.graph.ops()) {
      const py::str name{std::string(problem.graph.name(v))};
      if (!by_name.contains(name))
        throw InputError(fmt::format("{}: op '{}' has no device", where, problem.graph.name(v)));
      devices.push_back(py::object(by_name[name]).cast<std::int64_t>());
    }
  } else {
    devices = whole_numbers(answer, where, problem.graph.num_ops());
  }
  Placement placement;
  for (const OpId v : problem.graph.ops()) {
    const std::int64_t d = devices[index(v)];
    if (d < 0 || d >= static_cast<std::int64_t>(problem.cluster.num_devices()))
      throw InputError(fmt::format("{}: op '{}' is on device {}; the cluster has 0 to {}", where,
                                   problem.graph.name(v), d, problem.cluster.num_devices() - 1));
    placement.device.push_back(static_cast<DeviceId>(d));
  }
  return placement;
}

void define_placing(py::module_& m) {
  define_problem(m);
  py::class_<PlacedGraph, std::shared_ptr<PlacedGraph>>(m, "Placement", "A device for every op.")
      .def_property_readonly(
          "device",
          [](const std::shared_ptr<PlacedGraph>& p) {
            const auto* first = reinterpret_cast<const std::uint32_t*>(p->placement.device.data());
            return member_array<DeviceId>(p, first, p->placement.device.size());
          },
          "[num_ops]")
      .def_property_readonly("detail", [](const PlacedGraph& p) { return p.placement.detail; })
      .def_property_readonly("facts", [](const PlacedGraph& p) { return p.placement.facts; })
      .def("to_dict",
           [](const PlacedGraph& p) {
             py::dict all;
             for (const OpId v : p.graph.ops().ops())
               all[py::str(std::string(p.graph.ops().name(v)))] = index(p.placement.device[v]);
             return all;
           })
      .def(
          "save",
          [](const PlacedGraph& p, const std::string& path) {
            write_placement(path, p.placement, p.graph.ops(), p.graph.trace->name, p.devices);
          },
          py::arg("path"), "Writes a placement file for 'baechi simulate --placement'.")
      .def("__len__", [](const PlacedGraph& p) { return p.placement.device.size(); })
      .def("__repr__", [](const PlacedGraph& p) {
        return fmt::format("<baechi.Placement of {} ops on {} devices>", p.placement.device.size(),
                           p.devices);
      });
  m.def("place", &place, py::arg("graph"), py::arg("cluster"), py::arg("placer") = "auto",
        py::kw_only(), py::arg("seed") = 0, py::arg("transforms") = std::vector<std::string>(),
        "Places the graph on the cluster. `placer` is a name with options, such as\n"
        "'m_topo:uniform=false', or a function of a Problem that returns a device per op: a list\n"
        "or array by op number, or a dict by name. Raises InfeasibleError if the placer finds no\n"
        "placement that fits.\n\n"
        ">>> graph = baechi.Graph([10, 20], names=['a', 'b'])\n"
        ">>> baechi.place(graph, baechi.Cluster(devices=2, memory='1 GiB')).to_dict()\n"
        "{'a': 0, 'b': 1}");
}

}  // namespace baechi::python
