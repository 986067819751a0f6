#include "sim/transform/training/gradients.h"
#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

namespace {

/// Two layers of two ops of 10 ns, each of which writes 100 B that the next op and its own backward
/// op read; backward ops of 20 ns, which pass on 10 B. Kinds A and B; 7 B of weights in each A.
///   h.0.a -> h.0.b -> h.1.a -> h.1.b -> h.1.b' -> h.1.a' -> h.0.b' -> h.0.a'
OpGraph two_layers() {
  OpGraphBuilder b;
  std::vector<OpId> forward;
  std::vector<TensorId> written;
  for (const char* name : {"h.0.a", "h.0.b", "h.1.a", "h.1.b"}) {
    const bool a = std::string_view(name).ends_with("a");
    const OpId v = b.add_op(
        {.name = name, .kind = a ? "A" : "B", .compute = 10ns, .persistent = a ? 7_B : 0_B});
    if (!written.empty()) b.add_edge(written.back(), v);
    written.push_back(b.add_tensor(v, 100_B));
    forward.push_back(v);
  }
  std::optional<TensorId> gradient;
  for (std::size_t i = 4; i-- > 0;) {
    const OpId v = b.add_op(
        {.name = std::string(b.name(forward[i])) + "'", .compute = 20ns, .phase = Phase::backward});
    b.set_forward(v, forward[i]);
    b.add_edge(written[i], v);
    if (gradient) b.add_edge(*gradient, v);
    gradient = b.add_tensor(v, 10_B);
  }
  return std::move(b).build();
}

std::set<std::string> again(const OpGraph& graph) {
  std::set<std::string> names;
  for (const OpId v : graph.ops())
    if (graph.name(v).ends_with("/again")) names.emplace(graph.name(v).substr(0, 5));
  return names;
}

}  // namespace

TEST_SUITE_BEGIN("recompute");
// As when they run again, which takes 30 ns: at the turn there are 310 B. 10 ns a forward op, 20
// a backward op are left.
TEST_CASE("offloaded tensors are freed in between, and loading them takes no time") {
  const OpGraph graph = apply("recompute", two_layers(), {{"from_host", "true"}}).graph;
  CHECK(again(graph) == std::set<std::string>{"h.0.a", "h.1.a", "h.1.b"});
  const StepResult step = step_on_gpu0(graph);
  CHECK(step.makespan == 120ns);
  CHECK(step.devices[gpu0].peak == 14_B + 310_B);
}

TEST_CASE("time and memory of a step, by hand") {
  // 4 x 10 + 4 x 20 ns, 14 B of weights; all four tensors and a gradient at the turn.
  const StepResult before = step_on_gpu0(two_layers());
  CHECK(before.makespan == 120ns);
  CHECK(before.devices[gpu0].peak == 14_B + 410_B);
  // Only what h.0.b writes leaves its layer. The other three run again: 3 x 10 ns. At the turn
  // there are h.0.b's tensor, and those of h.1.a and h.1.b for the second time.
  const OpGraph graph = apply("recompute", two_layers()).graph;
  CHECK(again(graph) == std::set<std::string>{"h.0.a", "h.1.a", "h.1.b"});
  const StepResult after = step_on_gpu0(graph);
  CHECK(after.makespan == 150ns);
  CHECK(after.devices[gpu0].peak == 14_B + 310_B);
}

TEST_CASE("an op is recomputed on its device once the gradient has entered its layer") {
  const OpGraph graph = apply("recompute", two_layers()).graph;
  const OpId copy = *graph.find("h.0.a/again");
  CHECK(graph.op(copy).phase == Phase::backward);
  CHECK(graph.op(copy).forward == *graph.find("h.0.a"));
  CHECK(graph.op(copy).persistent == 0_B);
  CHECK(graph.op(copy).group == graph.op(*graph.find("h.0.a")).group);
  const auto before = graph.predecessors(copy);
  REQUIRE(before.size() == 1);
  CHECK(graph.name(before[0]) == "h.1.a'");
  // In the last layer no gradient enters: its first op waits for the end of the forward pass.
  std::set<std::string_view> waits;
  for (const OpId v : graph.predecessors(*graph.find("h.1.a/again"))) waits.insert(graph.name(v));
  CHECK(waits == std::set<std::string_view>{"h.0.b", "h.1.b"});
}

TEST_CASE("kept kinds, the last segment, parts by bytes, and patterns") {
  const auto run_again = [](const Values& values) {
    return again(apply("recompute", two_layers(), values).graph);
  };
  using Names = std::set<std::string>;
  CHECK(run_again({{"keep", "B"}}) == Names{"h.0.a", "h.1.a"});
  CHECK(run_again({{"last", "false"}}) == Names{"h.0.a"});
  CHECK(run_again({{"segments", "1"}}) == Names{"h.0.a", "h.0.b", "h.1.a", "h.1.b"});
  CHECK(run_again({{"segments", "2"}}) == Names{"h.0.a", "h.1.a", "h.1.b"});
  CHECK(run_again({{"segments", "4"}}) == Names{"h.1.b"});  // each other op's tensor leaves
  CHECK(run_again({{"names", "h.1*"}}) == Names{"h.1.a", "h.1.b"});
  CHECK_REFUSED(run_again({{"names", "g.*"}}), "recompute: no forward op has a name like 'g.*'");
  CHECK_REFUSED(
      run_again({{"segments", "lyer"}}),
      "x.yaml:1:2: recompute.segments: 'lyer' is neither layer nor a whole number from 1");
}

TEST_CASE("layers by name") {
  CHECK(layer_of("h.3.attention.query") == "h.3");
  CHECK(layer_of("net/block2/conv") == "net/block2");
  CHECK(layer_of("embedding/words").empty());
  CHECK(layer_of("conv3").empty());
  const OpGraph graph = graph_of("f0 -1> b0,b");
  CHECK(message<InputError>([&] {
          apply("recompute", graph);
        }).starts_with("recompute: no name of a forward op has a part with a number"));
}

TEST_CASE("tensors that a collective overwrites are recomputed, too") {
  //   h.0.a -> all_reduce in place -> h.0.b -> back, which also reads the sum.
  const OpGraph graph = apply("recompute", graph_of("h.0.a=10 -&8> h.0.sum=0,x:all_reduce/8/2 -t8> "
                                                    "h.0.b=10 -8> back10,b; h.0.sum -t> back"))
                            .graph;
  const OpId again = *graph.find("h.0.sum/again");
  REQUIRE(graph.in_edges(again).size() == 1);
  CHECK(graph.name(graph.edge(*graph.in_edges(again).begin()).src) == "h.0.a/again");
}

TEST_CASE("the members of a collective are recomputed together") {
  //   On two ranks: h.0.a -> all_reduce -> h.0.b; only the first rank's b' reads the sum.
  std::string text;
  for (const int rank : {0, 1})
    text += fmt::format(
        "h.0.a{0}=10 -8> h.0.sum{0}=0,x:all_reduce/8 -t8> h.0.b{0}=10 -8> h.1.back{0}=0,b;", rank);
  text += "h.0.sum0 -t> h.1.back0";
  const OpGraph graph = apply("recompute", graph_of(text), {{"segments", "1"}}).graph;
  REQUIRE(graph.collectives().size() == 2);
  const Collective& second = *(graph.collectives().begin() + 1);
  CHECK(second.members == 2);
  for (const OpId v : second.member_ids()) CHECK(graph.name(v).ends_with("/again"));
}

TEST_CASE("any training graph: only time is added, and only for recomputed ops") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = training_graph(1 + random.below(30), random);
    for (const char* segments : {"1", "2", "5"}) {
      const OpGraph result = apply("recompute", graph, {{"segments", segments}}).graph;
      const Totals before = step_totals(graph), after = step_totals(result);
      CHECK(after.persistent == before.persistent);
      Duration added{};
      for (const OpId v : result.ops()) {
        if (!result.name(v).ends_with("/again")) continue;
        const OpId first = result.op(v).forward;
        CHECK(first < v);
        CHECK(result.op(v).compute == result.op(first).compute);
        CHECK(result.kind(v) == result.kind(first));
        added += result.op(v).compute;
        bool read = false;  // by a backward op
        for (const EdgeId e : result.out_edges(v)) {
          read = true;
          CHECK(result.op(result.edge(e).dst).phase == Phase::backward);
        }
        CHECK(read);
      }
      CHECK(after.compute == before.compute + added);
    }
  }
}
