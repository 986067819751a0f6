#include "sim/engine/simulation.h"
#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "traces/importer.h"

namespace {

Trace committed(const std::string& file) {
  return read_trace(source_dir() + "/traces/data/" + file);
}

/// A row of the table in traces/data/PROVENANCE.md.
struct Row {
  const char* file;
  std::size_t forward, backward, update, edges, controls, tensors, groups, grouped_ops;
  std::int64_t compute_us, critical_path_us, persistent, largest_temporary, outputs;
};

// Persistent bytes of the recorded three: parameters x (1 + state), and batch norm's statistics.
// SGD keeps momentum, Adam two moments. The parameters' bytes are those of the recording's
// meta.json.
constexpr Row rows[] = {
    {"resnet50_train_b4.trace.json.zst", 178, 179, 161, 817, 1, 623, 107, 375, 7'196'503, 6'515'176,
     102'228'128L * 2 + 26'560L * 2 * 4, 19'669'120, 1'316'427'980},
    {"gnmt_small_train.trace.json.zst", 1845, 3342, 43, 9329, 58, 5188, 26, 532, 1'454'512, 282'441,
     49'324'288L * 3, 16'384'004, 640'229'132},
    {"transformer_small_train.trace.json.zst", 266, 362, 127, 1074, 45, 757, 76, 279, 2'320'926,
     1'502'450, 45'911'296L * 3, 16'384'004, 326'337'804},
    {"toy_fork.trace.json", 8, 0, 0, 9, 0, 7, 0, 0, 140, 90, 0, 0, 15'000},
    {"two_towers.trace.json", 8, 7, 6, 27, 0, 20, 6, 18, 18'800, 9'300, 48'000'000, 0, 36'101'000},
    {"tight_memory.trace.json", 6, 5, 4, 19, 0, 14, 4, 12, 12'600, 12'300, 4'000'000'000, 0,
     2'576'000'004},
};

std::size_t ops_of(const OpGraph& graph, Phase phase) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.ops(), [&](OpId v) { return graph.op(v).phase == phase; }));
}

/// The ops whose names `second` accepts on the second device.
template <class Second>
Placement split(const OpGraph& graph, Second second) {
  Placement p;
  for (const OpId v : graph.ops()) p.device.push_back(second(graph.name(v)) ? gpu1 : gpu0);
  return p;
}
StepResult simulated_step(const OpGraph& graph, const Placement& p, Bandwidth bandwidth,
                          Bytes memory, ReadyOrder queue = ReadyOrder::fifo) {
  const Cluster cluster = Cluster::uniform(2, memory, {.bandwidth = bandwidth, .latency = 0ns});
  const ProfiledCosts costs(graph, cluster);
  return simulate({graph, cluster, costs, {.queue = queue}}, p);
}

}  // namespace

TEST_SUITE_BEGIN("traces");
TEST_CASE("the traces in the repository have the numbers in PROVENANCE.md") {
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const Trace trace = committed(row.file);
    const OpGraph& graph = trace.graph;
    CHECK(ops_of(graph, Phase::forward) == row.forward);
    CHECK(ops_of(graph, Phase::backward) == row.backward);
    CHECK(ops_of(graph, Phase::update) == row.update);
    CHECK(graph.num_groups() == row.groups);

    const TraceTotals sum = totals(graph);
    std::size_t grouped = 0, tensors = 0, controls = 0;
    for (const OpId v : graph.ops()) grouped += graph.op(v).group != no_group ? 1U : 0U;
    for (const TensorId t : graph.tensors()) tensors += graph.tensor(t).control ? 0U : 1U;
    for (const EdgeId e : graph.edges())
      controls += graph.tensor(graph.edge(e).tensor).control ? 1U : 0U;
    CHECK(controls == row.controls);
    CHECK(graph.num_edges() - controls == row.edges);
    CHECK(tensors == row.tensors);
    CHECK(grouped == row.grouped_ops);
    CHECK(sum.compute == std::chrono::microseconds(row.compute_us));
    CHECK(critical_path(graph) == std::chrono::microseconds(row.critical_path_us));
    CHECK(sum.persistent == Bytes{row.persistent});
    CHECK(sum.temporary == Bytes{row.largest_temporary});
    CHECK(sum.outputs == Bytes{row.outputs});
  }
}

TEST_CASE("in the repository's traces every backward op has its forward op") {
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const Trace trace = committed(row.file);
    const OpGraph& graph = trace.graph;
    for (const OpId v : graph.ops()) {
      CAPTURE(graph.name(v));
      const Op& op = graph.op(v);
      CHECK((op.phase == Phase::backward) == (op.forward != no_op));
      if (op.forward != no_op) CHECK(graph.op(op.forward).phase == Phase::forward);
      CHECK(graph.in_edges(v).size() + graph.out_edges(v).size() > 0);
      for (const TensorId t : graph.outputs(v)) CHECK_FALSE(graph.readers(t).empty());
    }
  }
}

TEST_CASE("a parameter's update is colocated with the op that holds its memory") {
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const Trace trace = committed(row.file);
    const OpGraph& graph = trace.graph;
    for (const OpId v : graph.ops()) {
      if (graph.op(v).phase != Phase::update) continue;
      CAPTURE(graph.name(v));
      const GroupId group = graph.op(v).group;
      REQUIRE(group != no_group);
      CHECK(std::ranges::any_of(graph.members(group), [&](OpId member) {
        return graph.op(member).persistent > Bytes{};
      }));
    }
  }
}

// A cell of an LSTM on [4, 256] floats, its four gates being parts of one sum, in place:
//   c' = sigmoid(f) * c + sigmoid(i) * tanh(g),  h' = sigmoid(o) * tanh(c')
TEST_CASE("the recorded LSTM cell has the textbook's data flow") {
  const Trace trace = committed("gnmt_small_train.trace.json.zst");
  const OpGraph& graph = trace.graph;
  const auto reads = [&](std::string_view name) {
    std::vector<std::string_view> producers;
    for (const OpId u : graph.predecessors(graph.find(name).value()))
      producers.push_back(graph.name(u));
    return producers;
  };
  using Names = std::vector<std::string_view>;
  CHECK(reads("add_2") == Names{"add_1", "linear_1"});  // W x of all steps, and U h
  for (const char* gate : {"sigmoid_1", "sigmoid_2", "tanh_1", "sigmoid_3"})
    CHECK(reads(gate) == Names{"add_2"});
  CHECK(reads("mul_1") == Names{"zeros_2", "sigmoid_2"});
  CHECK(reads("mul_2") == Names{"sigmoid_1", "tanh_1"});
  CHECK(reads("add_3") == Names{"mul_1", "mul_2"});
  CHECK(reads("tanh_2") == Names{"add_3"});
  CHECK(reads("mul_3") == Names{"sigmoid_3", "tanh_2"});
  CHECK(output_bytes(graph, graph.find("add_2").value()) == Bytes{4 * 1024 * 4});
  CHECK(output_bytes(graph, graph.find("sigmoid_1").value()) == Bytes{4 * 256 * 4});
}

TEST_CASE("toy_fork has the step times in its note") {
  const Trace trace = committed("toy_fork.trace.json");
  const OpGraph& g = trace.graph;
  const auto on_second = [&](std::set<std::string, std::less<>> names) {
    return split(g, [&](std::string_view n) { return names.contains(n); });
  };
  CHECK(simulated_step(g, on_second({}), 1.0_GBps, 1_GiB).makespan == 140us);
  CHECK(simulated_step(g, on_second({"d", "e"}), 1.0_GBps, 1_GiB).makespan == 100us);
  Placement three = on_second({"d", "e", "f"});
  CHECK(simulated_step(g, three, 1.0_GBps, 1_GiB).makespan == 96us);
  three.priority = {};
  for (const OpId v : g.ops()) three.priority.push_back(g.name(v) == "f" ? 0 : 1);
  CHECK(simulated_step(g, three, 1.0_GBps, 1_GiB, ReadyOrder::priority).makespan == 90us);
}

TEST_CASE("two_towers has the step times in its note") {
  const Trace trace = committed("two_towers.trace.json");
  const OpGraph& g = trace.graph;
  CHECK(simulated_step(g, split(g, [](auto) { return false; }), 10.0_GBps, 1_GiB).makespan ==
        18'800us);
  CHECK(simulated_step(g, split(g, [](auto n) { return n.starts_with("right"); }), 10.0_GBps, 1_GiB)
            .makespan == 9'710us);
}

TEST_CASE("tight_memory needs exactly the time and memory in its note") {
  const Trace trace = committed("tight_memory.trace.json");
  const OpGraph& g = trace.graph;
  const Placement one = split(g, [](auto) { return false; });
  const Placement two = split(g, [](auto n) {
    return n.starts_with("loss") || n.starts_with("layer_3") || n.starts_with("layer_4");
  });
  CHECK(simulated_step(g, one, 10.0_GBps, Bytes{4'884'000'000}).makespan == 12'600us);
  CHECK_FALSE(simulated_step(g, one, 10.0_GBps, Bytes{4'884'000'000}).oom);
  CHECK(simulated_step(g, one, 10.0_GBps, Bytes{4'883'999'999}).oom);
  const StepResult r = simulated_step(g, two, 10.0_GBps, Bytes{2'756'000'000});
  CHECK_FALSE(r.oom);
  CHECK(r.makespan == 25'300us);
  CHECK(r.devices[gpu0].peak == Bytes{2'756'000'000});
  CHECK(r.devices[gpu1].peak == Bytes{2'756'000'000});
  CHECK(simulated_step(g, two, 10.0_GBps, Bytes{2'755'999'999}).oom);
}
