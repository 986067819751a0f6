#include <variant>

#include "sim/pipeline/pipeline.h"
#include "tests/checker/schedule_checker.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

namespace {

/// Four layers: f0 -> ... -> f3 -> b3 -> ... -> b0, each with weights and an update u0 ... u3.
/// tensors: ops have times, and gradients are tensors. Otherwise ops have work, gradients are part
/// of the persistent bytes of backward ops, and updates wait for them.
OpGraph four_layers(bool tensors) {
  OpGraphBuilder b;
  std::vector<OpId> forward;
  std::vector<TensorId> kept;
  const auto add = [&](char pass, int layer, Bytes persistent, Phase phase, std::int64_t us) {
    const std::string module = fmt::format("layer{}", layer);
    const OpId v = b.add_op({.name = fmt::format("{}{}", pass, layer),
                             .kind = "Linear",
                             .compute = tensors ? Duration{us * 1000} : Duration{},
                             .persistent = persistent,
                             .temporary = 1000_B,
                             .phase = phase,
                             .module = module});
    if (!tensors) b.add_kernel(v, {.flops = us * 1'000'000, .traffic = Bytes{us * 1000}});
    return v;
  };
  for (int i = 0; i < 4; ++i) {
    forward.push_back(add('f', i, 4000_B, Phase::forward, 100 + i));
    if (i > 0) b.add_edge(kept.back(), forward.back());
    kept.push_back(b.add_tensor(forward.back(), 1000_B));
  }
  std::optional<TensorId> gradient;
  for (int i = 3; i >= 0; --i) {
    const auto layer = static_cast<std::size_t>(i);
    const OpId v = add('b', i, tensors ? 0_B : 4000_B, Phase::backward, 200 + i);
    b.set_forward(v, forward[layer]);
    b.add_edge(kept[layer], v);
    if (gradient) b.add_edge(*gradient, v);
    gradient = b.add_tensor(v, 1000_B);
    const OpId u = add('u', i, 8000_B, Phase::update, 50 + i);
    if (tensors)
      b.add_edge(b.add_tensor(v, 4000_B), u);
    else
      b.add_control(v, u);
  }
  return std::move(b).build();
}

/// The transforms, with options that have an effect here.
const std::vector<std::string>& transforms_here() {
  static const std::vector<std::string> all{
      "colocate",
      "coplace",
      "by_module",
      "fuse",
      "forward_only: {force: true}",
      "baechi: {force: true}",
      "prune",
      "control_edges: {as: free}",
      "precision: {to: amp}",
      "precision: {to: fp16}",
      "recompute: {segments: 2}",
      "recompute: {segments: layer}",
      "micro_batches: {count: 2}",
      "micro_batches: {count: 2, weights: own}",
      "data_parallel: {replicas: 2, bucket: 4 kB, first_bucket: 4 kB}",
      "data_parallel: {replicas: 2, mode: ps}",
      "data_parallel: {replicas: 2, mode: zero1}",
      "data_parallel: {replicas: 2, mode: zero2}",
      "data_parallel: {replicas: 2, mode: zero3}",
      "data_parallel: {replicas: 2, simulate: all}",
      "overlap_exchanges",
      "send_after_pass",
      "accumulate",
      "as_sends",
      "host: {launch: 5 us}",
      "host: {launch: 5 us, threads: one}",
      "host: {launch: 5 us, per: pass}",
      "what_if: {rules: [{scale: {time: 0.5}, where: {phase: update}}]}",
      "what_if: {rules: [{batch: {factor: 2}}]}",
      "quantize: {weights: q8_0}",
      "offload: {modules: layer1, home: 2}",
      "offload: {optimizer: true, home: 2, prefetch: 1}",
      "split_sums"};
  return all;
}

/// "host" for "host: {launch: 5 us}".
std::string name_of(const std::string& transform) {
  return transform.substr(0, transform.find(':'));
}

/// Engine options that are not the default.
const std::vector<std::string>& engines_here() {
  static const std::vector<std::string> all{
      "semantics: event",     "semantics: baechi", "transfers: parallel", "transfers: duplex",
      "transfers: shared",    "transfers: staged", "queue: program",      "queue: priority",
      "cache_tensors: false", "overlap: false"};
  return all;
}

struct Refused {
  std::string why;
};
struct Ran {
  StepResult step;
  std::vector<std::string> faults;
};
using Outcome = std::variant<Refused, Ran>;

/// Layer i of the step is on device i / 2: the digit in an op's name is its layer.
IdVector<OpId, DeviceId> by_layer(const OpGraph& graph) {
  IdVector<OpId, DeviceId> device;
  for (const OpId v : graph.ops()) {
    const std::string_view name = graph.name(v);
    const std::size_t digit = name.find_first_of("0123456789");
    device.push_back(DeviceId{name[digit] >= '2' ? 1U : 0U});
  }
  return device;
}

/// Transforms as a scenario lists them.
std::string listed(const std::vector<std::string>& transforms) {
  std::string list;
  for (const std::string& transform : transforms) {
    if (!list.empty()) list += ", ";
    list += transform.find(':') == std::string::npos ? transform : '{' + transform + '}';
  }
  return list;
}

/// The step of four layers on two of four devices, built as for a scenario.
Outcome outcome(bool tensors, const std::string& list, const std::string& engine,
                const std::string& schedule = "") {
  const std::string text = fmt::format(
      "graph: {{generate: vgg16}}\ncluster: {{devices: {{count: 4, {}memory: 1 GB}}, link: "
      "{{bandwidth: 1 GB/s, latency: 1 us}}}}\nengine: {{{}}}\nplacers: [single]\n"
      "transforms: [{}]\n",
      tensors ? "" : "kind: v100_pytorch, ", engine, list);
  try {
    const ScenarioFile file = scenario_of(text, {}, "x.yaml");
    const Scenario point = file.point(0);
    const auto graph = std::make_shared<const OpGraph>(four_layers(tensors));
    const auto costed = std::make_shared<const CostedGraph>(
        std::make_shared<const PreparedGraph>(prepare(graph, point.cluster, point.transforms)),
        point.cluster);
    const Experiment experiment(costed, point.engine);
    Placement placement;
    placement.device = by_layer(experiment.problem().graph);
    const ExperimentStep step = experiment.step(placement);
    const Problem problem = step.problem();
    if (schedule.empty()) {
      if (problem.engine.semantics == Semantics::baechi) return Ran{step.simulate(), {}};
      const RecordedRun run = record(problem, step.placement());
      return Ran{run.result, faults(problem, step.placement(), run)};
    }
    const pipeline::PipelineOptions options{.schedule = schedule, .micro_batches = 4};
    check_pipeline(experiment.problem(), options, experiment.graph().after_placing);
    const pipeline::Unrolled unrolled = unroll(problem, step.placement(), options);
    const pipeline::UnrolledCosts costs(problem.costs, unrolled);
    const Problem all{unrolled.graph, problem.cluster, costs, problem.engine};
    const RecordedRun run = record(all, unrolled.placement);
    return Ran{run.result, faults(all, unrolled.placement, run)};
  } catch (const InputError& e) {
    return Refused{e.what()};
  }
}

void check_runs(const Outcome& o) {
  if (const auto* refused = std::get_if<Refused>(&o)) {
    CHECK(refused->why.size() > 10);
    return;
  }
  const Ran& ran = std::get<Ran>(o);
  CHECK(ran.step.makespan > Duration{});
  const std::string first = ran.faults.empty() ? "" : ran.faults.front();
  CHECK(first.empty());
}

}  // namespace

TEST_SUITE_BEGIN("combinations");
TEST_CASE("the table of combinations has every transform") {
  for (const TransformEntry& entry : transforms())
    CHECK(std::ranges::find(transforms_here(), entry.name, name_of) != transforms_here().end());
}

TEST_CASE("a transform and an engine option, and two of these, run by the rules or not at all") {
  for (const bool tensors : {false, true})
    for (const std::string& transform : transforms_here())
      for (const std::string& engine : engines_here()) {
        INFO(tensors, " ", transform, " ", engine);
        check_runs(outcome(tensors, listed({transform}), engine));
      }
  for (const std::string& one : engines_here())
    for (const std::string& other : engines_here()) {
      INFO(one, " ", other);
      if (name_of(one) != name_of(other)) check_runs(outcome(true, "", one + ", " + other));
    }
}

TEST_CASE("no rule of a later transform makes what an earlier one divides") {
  const Outcome behind = outcome(
      false, "{data_parallel: {replicas: 2, mode: zero1}}, {what_if: [{precision: {to: bf16}}]}",
      "queue: program");
  REQUIRE(std::holds_alternative<Refused>(behind));
  CHECK(std::get<Refused>(behind).why ==
        "x.yaml:5:59: transforms: 'precision' must not follow 'data_parallel', which changes its "
        "result");
}

TEST_CASE("more replicas than devices are refused before they are built") {
  const Outcome many =
      outcome(false, "{data_parallel: {replicas: 100000, simulate: all}}", "queue: program");
  REQUIRE(std::holds_alternative<Refused>(many));
  CHECK(std::get<Refused>(many).why ==
        "x.yaml:5:14: transforms: 'data_parallel' needs 100000 devices, one for each replica, and "
        "the cluster has 4 (simulate: one needs those of one replica)");
}

TEST_CASE("a schedule with a transform or an engine option runs by the rules or not at all") {
  std::size_t ran = 0;
  for (const bool tensors : {false, true})
    for (const pipeline::ScheduleEntry& schedule : pipeline::schedules()) {
      INFO(tensors, " ", schedule.name);
      const auto check = [&](const std::string& transforms, const std::string& engine) {
        INFO(transforms, " ", engine);
        const Outcome o = outcome(tensors, transforms, engine, std::string(schedule.name));
        check_runs(o);
        ran += std::holds_alternative<Ran>(o) ? 1U : 0U;
      };
      for (const std::string& transform : transforms_here()) check(listed({transform}), "");
      for (const std::string& engine : engines_here()) check("", engine);
    }
  CHECK(ran > 300);
}

// Compute times, transferred bytes and memory do not depend on the order in which ops of one
// instant start; the step does, by a few percent.
TEST_CASE("two transforms make the same step in either order, or one order is refused") {
  const std::map<std::pair<std::string, std::string>, std::string> ordered{
      {{"data_parallel", "host"}, "after data_parallel the host also launches collectives"},
      {{"accumulate", "host"}, "after accumulate the host also launches sums"},
      {{"precision", "what_if"}, "rules on times give times, which precision divides by factors"},
      {{"data_parallel", "what_if"}, "rules on times give times, which ZeRO's shares divide"},
      {{"data_parallel", "send_after_pass"}, "after collectives a pass ends with other ops"},
      {{"host", "send_after_pass"}, "after sends the host also launches sends"}};
  std::size_t same = 0, refused = 0;
  for (const bool tensors : {false, true})
    for (const std::string& one : transforms_here())
      for (const std::string& other : transforms_here()) {
        if (name_of(one) >= name_of(other)) continue;
        INFO(tensors, " ", one, " ", other);
        const Outcome first = outcome(tensors, listed({one, other}), "queue: program");
        const Outcome second = outcome(tensors, listed({other, one}), "queue: program");
        check_runs(first);
        check_runs(second);
        const auto *a = std::get_if<Ran>(&first), *b = std::get_if<Ran>(&second);
        refused += a == nullptr || b == nullptr ? 1U : 0U;
        if (a == nullptr || b == nullptr || ordered.contains({name_of(one), name_of(other)}))
          continue;
        ++same;
        CHECK(a->step.moved == b->step.moved);
        for (const DeviceId d : {gpu0, gpu1}) {
          const DeviceUse &x = a->step.devices[d], &y = b->step.devices[d];
          CHECK(x.busy == y.busy);
          CHECK(x.at_peak[MemoryKind::weights].count == y.at_peak[MemoryKind::weights].count);
          CHECK(to_us(Duration{x.peak.count}) ==
                doctest::Approx(to_us(Duration{y.peak.count})).epsilon(0.1));
        }
        CHECK(to_us(a->step.makespan) == doctest::Approx(to_us(b->step.makespan)).epsilon(0.05));
      }
  CHECK(same > 300);
  CHECK(refused > 100);
}
