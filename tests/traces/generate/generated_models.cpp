#include "tests/traces/generate/generated_models.h"

#include "tests/checker/recorded.h"
#include "tests/small_graphs.h"
#include "tests/traces/generate/generated_graphs.h"

namespace baechi::testing {

OpGraph generate(std::string_view name, const Settings& settings) {
  return generate_trace(name, options_of(name, settings)).graph;
}

OpGraph timed(const OpGraph& graph) {
  IdVector<OpId, Duration> times;
  for (const OpId v : graph.ops()) {
    const OpWork work = graph.work(v);
    const std::int64_t ns = std::max(work.flops / 5'000, work.traffic.count / 400);
    times.push_back(work == OpWork{} ? Duration{1'000} : Duration{5'000 + ns});
  }
  return graph.with_times("", times);
}

StepResult on_one_device(const OpGraph& graph) {
  return run(timed(graph), gpus(1, 1024_GiB),
             {.device = IdVector<OpId, DeviceId>(graph.num_ops(), gpu0)});
}

std::int64_t parameters(const OpGraph& module_level) {
  std::int64_t bytes = 0;
  for (const OpId v : module_level.ops()) {
    if (module_level.op(v).phase == Phase::backward) bytes += module_level.op(v).persistent.count;
  }
  return bytes / 4;
}

void check_contract(const OpGraph& two, const OpGraph& four, bool sparse) {
  REQUIRE(two.num_ops() == four.num_ops());
  REQUIRE(two.num_tensors() == four.num_tensors());
  CHECK(two.has_work());
  std::set<std::string> bad;
  for (const OpId v : two.ops()) {
    const Op& op = two.op(v);
    const bool backward = op.phase == Phase::backward;
    if (two.name(v) != four.name(v)) bad.emplace("other ops");
    if (backward != (op.forward != no_op)) bad.emplace("backward without forward");
    if (backward && two.op(op.forward).phase != Phase::forward) bad.emplace("backward of what?");
    if (op.persistent != four.op(v).persistent) bad.emplace("weights grow with the batch");
    if (op.phase == Phase::update && !sparse && two.work(v) != four.work(v))
      bad.emplace("updates grow");
    if (two.work(v).flops > four.work(v).flops) bad.emplace("work shrinks with the batch");
    if (op.compute != Duration{}) bad.emplace("times");
  }
  for (const TensorId t : two.tensors()) {
    const Bytes a = two.tensor(t).size, b = four.tensor(t).size;
    // Only bytes of weights, shapes and statistics do not grow.
    if (b < a || 2 * a < b) bad.emplace("sizes shrink, or grow faster than the batch");
  }
  CHECK(bad == std::set<std::string>{});
  CHECK(on_one_device(two).devices[gpu0].peak < on_one_device(four).devices[gpu0].peak);
}

}  // namespace baechi::testing
