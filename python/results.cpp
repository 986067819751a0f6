#include <pybind11/stl.h>

#include "placers/interface/registry.h"
#include "placers/search/chain.h"
#include "python/place.h"
#include "scenarios/read/choice_text.h"

namespace baechi::python {
namespace {

struct Timeline final : StepObserver {
  void on_op(OpId v, DeviceId d, TimePoint start, TimePoint end) override {
    op.push_back(static_cast<std::uint32_t>(v));
    op_device.push_back(static_cast<std::uint32_t>(d));
    op_start.push_back(start.time_since_epoch().count());
    op_end.push_back(end.time_since_epoch().count());
  }
  void on_transfer(TensorId t, DeviceId src, DeviceId dst, TimePoint start,
                   TimePoint end) override {
    tensor.push_back(static_cast<std::uint32_t>(t));
    from.push_back(static_cast<std::uint32_t>(src));
    to.push_back(static_cast<std::uint32_t>(dst));
    transfer_start.push_back(start.time_since_epoch().count());
    transfer_end.push_back(end.time_since_epoch().count());
  }

  std::vector<std::uint32_t> op, op_device, tensor, from, to;
  std::vector<std::int64_t> op_start, op_end, transfer_start, transfer_end;
};

struct Result {
  StepResult step;
  std::string oom;  // the OOM report; "" if the step completes
  std::optional<Timeline> timeline;
};

std::string sentence_of(const OutOfMemory& oom, const Problem& p) {
  return fmt::format("device {} runs out of memory at {}: '{}' needs {}, {} is free",
                     index(oom.device), to_text(oom.at.time_since_epoch()), p.graph.name(oom.op),
                     to_text(oom.needed), to_text(oom.free));
}

Result simulate_step(const Graph& graph, ClusterSetup& cluster, const py::object& placement,
                     bool timeline, const std::vector<std::string>& transforms) {
  const Experiment experiment = cluster.experiment(graph, transforms);
  const Problem problem = experiment.problem();
  Placement given = placement_of(placement, problem, "placement");
  Result result;
  if (timeline) result.timeline.emplace();
  const py::gil_scoped_release release_gil;
  const ExperimentStep step = experiment.step(std::move(given));
  std::vector<StepObserver*> observers;
  if (timeline) observers.push_back(&*result.timeline);
  result.step = step.simulate(observers);
  if (result.step.oom) result.oom = sentence_of(*result.step.oom, step.problem());
  return result;
}

template <class Member>
auto per_device(Member member) {
  return [member](const Result& r) {
    std::vector<std::int64_t> all;
    for (const DeviceUse& use : r.step.devices) all.push_back(member(use));
    return owned_array(std::move(all));
  };
}

py::object timeline_of(const Result& r) {
  if (!r.timeline) throw InputError("timeline: not recorded; use simulate(..., timeline=True)");
  const Timeline& t = *r.timeline;
  py::dict all;
  all["op"] = owned_array(t.op);
  all["device"] = owned_array(t.op_device);
  all["start_ns"] = owned_array(t.op_start);
  all["end_ns"] = owned_array(t.op_end);
  all["tensor"] = owned_array(t.tensor);
  all["src"] = owned_array(t.from);
  all["dst"] = owned_array(t.to);
  all["transfer_start_ns"] = owned_array(t.transfer_start);
  all["transfer_end_ns"] = owned_array(t.transfer_end);
  return all;
}

/// A Python function of a Step as an objective, of placements that fit.
class PythonObjective final : public Objective {
 public:
  explicit PythonObjective(const py::object& function) : function_(function) {}
  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    return std::make_unique<Calls>(problem, function_);
  }

 private:
  class Calls final : public Evaluator {
   public:
    Calls(const Problem& problem, const py::object& function)
        : function_(function),
          simulator_(problem),
          memory_(make_objective("step_time", Options("step_time"))->on(problem)) {}
    Score score(const Placement& placement) override {
      const StepResult& step = simulator_.run(placement);
      if (step.oom) return memory_->score(placement);
      const py::gil_scoped_acquire lock;
      const py::object answer = function_(Result{step, {}, {}});
      const auto value = answer.cast<double>();
      constexpr double most = 1e12, decimals = 1e6;
      if (!(value >= 0.0 && value <= most))
        throw InputError("objective: returned " + py::str(answer).cast<std::string>() +
                         ", not a number from 0 to 1e12");
      return {.value = Duration{std::llround(value * decimals)}};
    }

   private:
    const py::object& function_;
    Simulator simulator_;
    std::unique_ptr<Evaluator> memory_;
  };

  const py::object& function_;
};

PlacedGraph search_for(const Graph& graph, ClusterSetup& cluster, const py::object& objective,
                       const std::string& placer, std::size_t evaluations, std::uint64_t seed) {
  const Experiment experiment = cluster.experiment(graph, {});
  Choice choice = parse_choice(placer, "placer");
  const auto chosen = make_placer(choice.name, std::move(choice.options), choice.where);
  const PythonObjective called(objective);
  const py::gil_scoped_release release_gil;
  const Problem problem = experiment.problem();
  const search::SearchSpace space(problem);
  search::Chain chain(space, called, experiment.place(*chosen, seed), seed);
  if (!space.movable().empty())
    chain.run(evaluations, {.begin = 0.05, .end = 0.0005, .leaves = 0.0}, {});
  Placement best = chain.best();
  best.detail = fmt::format("{} evaluations of the objective", chain.evaluations());
  best.facts = {{"objective", static_cast<double>(chain.best_score().value.count()) * 1e-6},
                {"evaluations", static_cast<double>(chain.evaluations())}};
  return {graph, std::move(best), cluster.num_devices()};
}

double bound(const Graph& graph, ClusterSetup& cluster) {
  const Experiment experiment = cluster.experiment(graph, {});
  const Problem p = experiment.problem();
  return to_us(lower_bounds(p.graph, p.cluster, p.costs).best());
}

}  // namespace

void define_results(py::module_& m) {
  py::class_<Result>(m, "Step", "A simulated step.")
      .def_property_readonly(
          "step_time_us",
          [](const Result& r) -> std::optional<double> {
            if (r.step.oom) return std::nullopt;
            return to_us(r.step.makespan);
          },
          "None if it runs out of memory")
      .def_property_readonly("ok", [](const Result& r) { return !r.step.oom; })
      .def_property_readonly(
          "oom",
          [](const Result& r) -> std::optional<std::string> {
            if (r.oom.empty()) return std::nullopt;
            return r.oom;
          },
          "The OOM report; None if the step completes")
      .def_property_readonly(
          "busy_ns", per_device([](const DeviceUse& u) { return std::int64_t{u.busy.count()}; }))
      .def_property_readonly("peak_bytes",
                             per_device([](const DeviceUse& u) { return u.peak.count; }))
      .def_property_readonly("moved_bytes", [](const Result& r) { return r.step.moved.count; })
      .def_property_readonly("transfers", [](const Result& r) { return r.step.transfers; })
      .def_property_readonly("events", [](const Result& r) { return r.step.events; })
      .def_property_readonly("timeline", &timeline_of,
                             "Arrays by name: op, device, start_ns, end_ns; tensor, src, dst, "
                             "transfer_start_ns, transfer_end_ns")
      .def("__repr__", [](const Result& r) {
        return r.step.oom ? fmt::format("<baechi.Step: {}>", r.oom)
                          : fmt::format("<baechi.Step: {}>", to_text(r.step.makespan));
      });
  m.def(
      "simulate", &simulate_step, py::arg("graph"), py::arg("cluster"), py::arg("placement"),
      py::kw_only(), py::arg("timeline") = false,
      py::arg("transforms") = std::vector<std::string>(),
      "Simulates the step of a placed graph. `placement`: the result of place(), a device per op\n"
      "by number, or a dict by name. Running out of memory is a result: Step.oom.\n\n"
      ">>> graph, cluster = baechi.Graph([10, 20]), baechi.Cluster(devices=2, memory='1 GiB')\n"
      ">>> baechi.simulate(graph, cluster, [0, 0]).step_time_us\n30.0");
  m.def(
      "search", &search_for, py::arg("graph"), py::arg("cluster"), py::arg("objective"),
      py::kw_only(), py::arg("placer") = "auto", py::arg("evaluations") = 500, py::arg("seed") = 0,
      "The placement of least objective(step) found from the placer's answer. The objective is a\n"
      "function of a Step; its value counts to six decimals.\n\n"
      ">>> graph, cluster = baechi.Graph([10, 20]), baechi.Cluster(devices=2, memory='1 GiB')\n"
      ">>> devices_used = lambda step: sum(busy > 0 for busy in step.busy_ns)\n"
      ">>> baechi.search(graph, cluster, devices_used).facts['objective']\n1.0");
  m.def(
      "bound", &bound, py::arg("graph"), py::arg("cluster"),
      "A lower bound on the step time of any placement, in microseconds.\n\n"
      ">>> baechi.bound(baechi.Graph([10, 20]), baechi.Cluster(devices=2, memory='1 GiB'))\n20.0");
}

}  // namespace baechi::python
