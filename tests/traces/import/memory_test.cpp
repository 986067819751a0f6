// The simulated memory of a recorded step against the recorded allocations.

#include <doctest/doctest.h>

#include "sim/engine/simulation.h"
#include "tests/shared_data.h"
#include "tests/traces/import/recordings.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// The peak of a step on one device, minus memory from before the step: weights, state and inputs.
std::int64_t simulated_peak(const OpGraph& graph, ReadyOrder queue) {
  const Cluster cluster = Cluster::uniform(1, Bytes{std::int64_t{1} << 50}, {.bandwidth = {1e9}});
  const ProfiledCosts costs(graph, cluster);
  const Placement placement{.device = IdVector<OpId, DeviceId>(graph.num_ops(), DeviceId{0})};
  const StepResult step = simulate({graph, cluster, costs, {.queue = queue}}, placement);
  std::int64_t before = 0;
  for (const OpId v : graph.ops()) before += graph.op(v).persistent.count;
  return step.devices[DeviceId{0}].peak.count - before;
}

std::int64_t input_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const TensorId t : graph.tensors())
    if (graph.kind(graph.tensor(t).producer) == "input") bytes += graph.tensor(t).size.count;
  return bytes;
}

}  // namespace

TEST_SUITE("recordings") {
  // Inputs were allocated before the recording. Those live at the peak are added to the recorded
  // curve.
  TEST_CASE("a recorded step needs the memory that its allocator allocated, within 1 %") {
    const auto data = shared_data("traces");
    if (!data) return;
    for (const char* model : {"resnet50", "gnmt_small", "transformer_small"}) {
      CAPTURE(model);
      const std::string path = (*data / "traces" / "recorded" / model).string();
      const auto raw = events_of(read_file(path + ".events.jsonl.zst"));
      const std::string times = kineto_of_events(raw);
      TextFile kineto("k", times);
      const Trace trace = imported(path + ".eg.json.zst", &kineto);
      const auto recorded = static_cast<double>(recorded_peak(raw));
      for (const ReadyOrder queue : {ReadyOrder::fifo, ReadyOrder::program}) {
        const auto peak = static_cast<double>(simulated_peak(trace.graph, queue));
        CHECK(peak >= 0.99 * recorded);
        CHECK(peak <= 1.01 * recorded + static_cast<double>(input_bytes(trace.graph)));
      }
    }
  }
}
