#include "sim/transform/training/data_parallel.h"
#include "sim/transform/training/gradients.h"
#include "tests/prelude.h"
#include "tests/sim/transform/training/two_gradients.h"

namespace {

using ByPhase = std::array<std::int64_t, 3>;  // weights, gradients, optimizer state
ByPhase bytes_by_phase(const OpGraph& graph) {
  ByPhase bytes{};
  for (const OpId v : graph.ops())
    bytes[static_cast<std::size_t>(graph.op(v).phase)] += graph.op(v).persistent.count;
  return bytes;
}

}  // namespace

TEST_SUITE_BEGIN("zero");
// 40 B of weights, of which each of two replicas has changed 20: gathered in 20 ns, or broadcast
// in 10 and 10.
TEST_CASE("new weights are gathered, or broadcast by each replica that has a share") {
  const auto gathered = [](const Values& values) {
    const PlacedStep step = placed(two_gradients(), values);
    std::vector<std::int64_t> bytes;
    for (const Collective& c : step.graph.collectives())
      if (c.kind == CollectiveKind::all_gather) bytes.push_back(c.bytes.count);
    return bytes;
  };
  Values values{{"replicas", "2"}, {"mode", "zero1"}};
  CHECK(gathered(values) == std::vector<std::int64_t>{40});
  CHECK(gathered({{"replicas", "1"}, {"mode", "zero1"}}).empty());
  values["broadcasts"] = "true";
  CHECK(gathered(values) == std::vector<std::int64_t>{20, 20});
  CHECK(replicas_trained({{"mode", "zero1"}, {"broadcasts", "true"}}).makespan == 176ns);
  CHECK_REFUSED(gathered({{"mode", "zero3"}, {"broadcasts", "true"}}),
                doctest::Contains("only zero1 and zero2 distribute new weights"));
}

TEST_CASE("zero3 gathers the weights for each micro-batch, forward and backward") {
  const OpGraph graph = apply("micro_batches", two_gradients(false), {{"count", "3"}}).graph;
  const PlacedStep step = placed(graph, {{"replicas", "2"}, {"mode", "zero3"}});
  std::vector<std::int64_t> gathered;
  for (const Collective& c : step.graph.collectives())
    if (c.kind == CollectiveKind::all_gather) gathered.push_back(c.bytes.count);
  CHECK(gathered == std::vector<std::int64_t>(6, 40));
}

// The table of 100 B is read by the first layer, and, as the weights of the last, by another op
// of its group: gathered for each of them, forward and backward. The step of a cell that reads
// the weights of the first step reads what was gathered for that.
TEST_CASE("zero3 gathers tied weights for each layer that reads them") {
  OpGraphBuilder b;
  const OpId table = b.add_op({.name = "table", .kind = "Embedding", .persistent = 100_B});
  const OpId cell = b.add_op({.name = "cell", .kind = "Cell", .persistent = 40_B});
  const OpId next = b.add_op({.name = "next", .kind = "Cell"});
  const OpId head = b.add_op({.name = "head", .kind = "Linear"});
  b.add_kernel(head, {.flops = 1, .traffic = 150_B, .weights = 100_B});
  b.add_kernel(next, {.flops = 1, .traffic = 50_B, .weights = 40_B});
  b.colocate(table, "tied");
  b.colocate(head, "tied");
  b.colocate(cell, "cells");
  b.colocate(next, "cells");
  OpId before = no_op;
  for (const OpId v : {table, cell, next, head}) {
    if (before != no_op) b.add_edge(b.add_tensor(before, 8_B), v);
    before = v;
  }
  for (const OpId v : {head, next, cell, table}) {
    const OpId g = b.add_op({.name = fmt::format("{}_grad", b.name(v)),
                             .persistent = v == table ? 100_B : 0_B,
                             .phase = Phase::backward});
    b.set_forward(g, v);
    b.add_edge(b.add_tensor(before, 8_B), g);
    before = g;
  }
  const OpId u = b.add_op({.name = "u", .persistent = 200_B, .phase = Phase::update});
  b.add_control(before, u);
  const OpGraph graph = std::move(b).build();
  std::vector<std::int64_t> bytes;
  for (const WeightGather& g :
       weight_gathers(graph, IdVector<OpId, DeviceId>(graph.num_ops()), 1, 1_B))
    bytes.push_back(g.bytes.count);
  CHECK(bytes == std::vector<std::int64_t>{100, 40, 100, 100, 40, 100});
}

// zero2 sends the gradients of both micro-batches by themselves: each is whole until it is
// scattered, and the second adds its share to the first's.
TEST_CASE("gradients that each micro-batch sends have their full size until then") {
  const OpGraph graph = apply("micro_batches", two_gradients(), {{"count", "2"}}).graph;
  const PlacedStep step = placed(graph, {{"replicas", "2"}, {"mode", "zero2"}});
  const OpId later = *step.graph.find("b1@1");
  CHECK(step.graph.op(later).temporary == 0_B);
  const OpGraph summed = placed(graph, IdVector<OpId, DeviceId>(graph.num_ops(), gpu0),
                                {{"replicas", "2"}, {"mode", "ddp"}})
                             .graph;
  CHECK(summed.op(*summed.find("b1@1")).temporary == 100_B);  // sent once, with the first
  std::int64_t whole = 0, shares = 0, added = 0;
  for (const TensorId t : step.graph.tensors()) {
    const Tensor& tensor = step.graph.tensor(t);
    if (tensor.size == 100_B) whole += tensor.reference ? 0 : 1;
    if (tensor.size == 50_B) (tensor.reference ? added : shares) += 1;
  }
  CHECK(whole == 4);
  CHECK(shares == 2);
  CHECK(added == 2);
}

TEST_CASE("new weights are gathered after all ops that follow an update") {
  // As two_gradients(), but u1 and u0 clip, and an op of 50 ns follows them, by data or control
  // edges: gradients are scattered from 50 to 150; halves: clipped until 156, 25 ns more until
  // 181; weights are gathered in 20 ns.
  for (const char* arrow : {"-0>", "~>"}) {
    const OpGraph graph =
        graph_of(fmt::format("f50,w40 -0> g0,w200,b:f ~> clip12,u {} adam50,w80,u", arrow));
    const PlacedStep step = placed(graph, {{"replicas", "2"}, {"mode", "zero1"}});
    CHECK(replicas_step(step, gpus(1)).makespan == 201ns);
  }
}

TEST_CASE("each micro-batch sends gradients that replicas do not keep whole") {
  // zero2 of f, b1, b0 twice: 200 B are scattered behind either backward pass, once for ddp.
  const OpGraph graph = apply("micro_batches", two_gradients(false), {{"count", "2"}}).graph;
  const auto sent = [&](const char* mode, CollectiveKind kind) {
    std::vector<std::int64_t> bytes;
    const PlacedStep step = placed(graph, {{"replicas", "2"}, {"mode", mode}});
    for (const Collective& c : step.graph.collectives())
      if (c.kind == kind) bytes.push_back(c.bytes.count);
    return bytes;
  };
  using Bytes = std::vector<std::int64_t>;
  CHECK(sent("ddp", CollectiveKind::all_reduce) == Bytes{200});
  CHECK(sent("zero1", CollectiveKind::reduce_scatter) == Bytes{200});
  CHECK(sent("zero2", CollectiveKind::reduce_scatter) == Bytes{200, 200});
}

TEST_CASE("new weights are gathered uncompressed, whatever the compression of gradients") {
  const PlacedStep step =
      placed(two_gradients(), {{"replicas", "2"}, {"mode", "zero1"}, {"compress", "0.1"}});
  // 40 B of weights, 200 B of gradients.
  for (const Collective& c : step.graph.collectives())
    CHECK(c.bytes == (c.kind == CollectiveKind::all_gather ? 40_B : 20_B));
}

// 10 of f's 40 bytes of weights have a gradient, and none of g's 60.
TEST_CASE("weights without a gradient are not gathered") {
  const OpGraph graph = graph_of("f0,w40 -8> g0,w60 -8> b0,w10,b:f ~> u0,w20,u");
  for (const char* mode : {"zero1", "zero2"}) {
    CAPTURE(mode);
    const PlacedStep step = placed(graph, {{"replicas", "2"}, {"mode", mode}});
    for (const Collective& c : step.graph.collectives())
      if (c.kind == CollectiveKind::all_gather) CHECK(c.bytes == 10_B);
  }
}

TEST_CASE("what each ZeRO stage shards") {
  const auto kinds = [](const char* mode) {
    return bytes_by_phase(
        apply("data_parallel", two_gradients(false), {{"replicas", "4"}, {"mode", mode}}).graph);
  };
  CHECK(kinds("ddp") == ByPhase{40, 200, 160});
  CHECK(kinds("zero1") == ByPhase{40, 200, 40});
  CHECK(kinds("zero2") == ByPhase{40, 50, 40});
  CHECK(kinds("zero3") == ByPhase{10, 50, 40});
  // zero2: the whole gradient is there from the start of its op to the end of the scatter:
  // weights 40, shares 2 x 50 + 2 x 40, b1's tensors 10 + 10 and its gradient 100: at 10 ns.
  CHECK(replicas_trained({{"mode", "zero2"}, {"bucket", "1 B"}, {"first_bucket", "1 B"}}, false)
            .devices[gpu0]
            .peak >= 40_B + 180_B + 120_B);
}

using SentCollective = std::array<std::int64_t, 5>;

static std::int64_t number_of(CollectiveKind kind) { return static_cast<std::int64_t>(kind); }
/// The collectives of a graph: kind, bytes, ranks, nodes, sharing.
static std::vector<SentCollective> kinds_and_ranks(const OpGraph& graph) {
  std::vector<SentCollective> all;
  for (const Collective& c : graph.collectives())
    all.push_back({number_of(c.kind), c.bytes.count, c.ranks, c.nodes, c.sharing});
  return all;
}

TEST_CASE("hybrid sharding: groups shard, and all-reduce between each other") {
  // 8 replicas on 4 machines, in groups of 2 on one machine each: a scatter of 200 B in the
  // group, then the half among 4 groups, of which two use the network of a machine at once.
  const Values values{{"replicas", "8"}, {"nodes", "4"}, {"group", "2"}, {"send", "after"}};
  const auto with = [&](const char* mode) {
    Values all = values;
    all["mode"] = mode;
    return placed(two_gradients(false), all).graph;
  };
  const std::vector<SentCollective> summed{
      {number_of(CollectiveKind::reduce_scatter), 200, 2, 1, 1},
      {number_of(CollectiveKind::all_reduce), 100, 4, 4, 2}};
  CHECK(kinds_and_ranks(with("zero2")).size() == 3);
  const auto one = kinds_and_ranks(with("zero1"));
  REQUIRE(one.size() == 3);
  CHECK(std::vector(one.begin(), one.begin() + 2) == summed);
  CHECK(one[2] ==
        SentCollective{number_of(CollectiveKind::all_gather), 40, 2, 1, 1});  // new weights
  // zero3: 20 of 40 B of weights, gathered in the group for each of two passes.
  const OpGraph three = with("zero3");
  CHECK(three.op(*three.find("f")).persistent == 20_B);
  std::size_t gathers = 0;
  for (const auto& c : kinds_and_ranks(three))
    if (c[0] == number_of(CollectiveKind::all_gather)) {
      CHECK(c == SentCollective{number_of(CollectiveKind::all_gather), 40, 2, 1, 1});
      ++gathers;
    }
  CHECK(gathers == 2);
  CHECK(message<InputError>(
            [] { transform("data_parallel", {{"mode", "zero3"}, {"group", "3"}}); }) ==
        "x.yaml:1:2: data_parallel.group: 8 replicas in mode zero3 are not divided into "
        "groups of 3");
}

TEST_CASE("expert parallelism: gradients of experts are reduced over every fourth replica") {
  // 8 replicas on 2 machines; 4 neighbours share experts, so that 2 replicas, one on each
  // machine, have the same. Four such pairs use the network at once.
  const OpGraph graph =
      placed(two_gradients(false, {"b1", "h/expert_0_grad"}),
             {{"replicas", "8"}, {"nodes", "2"}, {"expert", "4"}, {"mode", "after"}})
          .graph;
  CHECK(kinds_and_ranks(graph) ==
        std::vector<SentCollective>{{number_of(CollectiveKind::all_reduce), 100, 8, 2, 1},
                                    {number_of(CollectiveKind::all_reduce), 100, 2, 2, 4}});
  CHECK_REFUSED(transform("data_parallel", {{"expert", "3"}}),
                "x.yaml:1:2: data_parallel.expert: 8 replicas are not divided by 3");
}

TEST_CASE("after fp16, replicas shard master weights and gather 16-bit ones") {
  // f holds 20 B, the half copy; u1 its 32-bit weights, 40 B, beside 80 B of state; u0 80 B;
  // b1 and b0 50 B of gradients each. Times of f and b are halved.
  const OpGraph graph = apply("precision", two_gradients(false), {{"to", "fp16"}}).graph;
  const auto kinds = [&](const char* mode) {
    return bytes_by_phase(apply("data_parallel", graph, {{"replicas", "4"}, {"mode", mode}}).graph);
  };
  CHECK(kinds("ddp") == ByPhase{20, 100, 200});
  CHECK(kinds("zero1") == ByPhase{20, 100, 50});
  CHECK(kinds("zero2") == ByPhase{20, 2 * 13, 50});
  CHECK(kinds("zero3") == ByPhase{5, 2 * 13, 50});
  // Two replicas gather 20 B in 10 ns, for f and again for b1: f from 10 to 15, b1 from 20 to 30,
  // b0 until 40. 50 B are scattered in 25 ns, from 30 and from 55 to 80; half of both updates
  // takes 6 ns.
  const PlacedStep step = placed(
      graph, {{"replicas", "2"}, {"bucket", "1 B"}, {"first_bucket", "1 B"}, {"mode", "zero3"}});
  std::vector<Bytes> gathered;
  for (const Collective& c : step.graph.collectives())
    if (c.kind == CollectiveKind::all_gather) gathered.push_back(c.bytes);
  CHECK(gathered == std::vector<Bytes>{20_B, 20_B});
  CHECK(replicas_step(step, gpus(1)).makespan == 86ns);
}

TEST_CASE("weights of a recomputed segment are gathered one op ahead, not all at once") {
  // f0 -> f1 -> f2, recomputed as r0 -> r1 -> r2, then b2 -> b1 -> b0. Weights i are read by fi,
  // and then by ri and bi.
  const OpGraph graph = graph_of(
      "f0=0,w10 -1> f1=0,w10 -1> f2=0,w10 -1> r0=0,b:f0 -1> r1=0,b:f1 -1> r2=0,b:f2 -1> "
      "b2=0,b:f2 -1> b1=0,b:f1 -1> b0=0,b:f0");
  const auto waits = [](const OpGraph& of) {
    std::vector<std::string> all;
    for (const WeightGather& g :
         weight_gathers(of, IdVector<OpId, DeviceId>(of.num_ops(), gpu0), 1, 1_B))
      all.push_back(fmt::format("{} after {}", of.name(g.first_user()),
                                g.waits_for == no_op ? "nothing" : of.name(g.waits_for)));
    return all;
  };
  CHECK(waits(graph) == std::vector<std::string>{"f0 after nothing", "f1 after nothing",
                                                 "f2 after f0", "r0 after f1", "r1 after f2",
                                                 "r2 after r0"});
  // One op reads all weights of its group: the last gather cannot wait for the op that reads it.
  CHECK(waits(graph_of("f0=1,w10,c:g -1> f1=1,w10,c:g -1> f2=1,w10,c:g -1> b1,b,c:g")) ==
        std::vector<std::string>{"f0 after nothing", "f1 after nothing", "f2 after f0",
                                 "b after f1", "b after f2", "b after nothing"});
}

// f -> r -> b: r brings back what f has written, and b alone has a kernel.
TEST_CASE("an op that computes nothing needs no weights") {
  const OpGraph graph = graph_of("f0,w10,f1 -1> r0,b:f -1> b0,f1,b:f");
  const auto gathers =
      weight_gathers(graph, IdVector<OpId, DeviceId>(graph.num_ops(), gpu0), 1, 1_B);
  REQUIRE(gathers.size() == 2);
  CHECK(gathers[1].users == std::vector{OpId{2}});
}
