#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "tests/prelude.h"

namespace {

/// Ops named by the letters of `names`, 1 ns each; edges such as {"ab"}: b reads a's one tensor.
OpGraphBuilder letters(std::string_view names, std::initializer_list<std::string_view> edges) {
  OpGraphBuilder b;
  std::vector<TensorId> output;
  for (std::size_t i = 0; i < names.size(); ++i)
    output.push_back(b.add_tensor(b.add_op({.name = names.substr(i, 1), .compute = 1ns}), 4_B));
  for (const std::string_view e : edges)
    b.add_edge(output[names.find(e[0])], static_cast<OpId>(names.find(e[1])));
  return b;
}

}  // namespace

TEST_SUITE_BEGIN("graph");
TEST_CASE("ids are a topological order that keeps insertion order where it can") {
  const OpGraph g = letters("caz", {"ac"}).build();
  CHECK(g.name(OpId{0}) == "a");
  CHECK(g.name(OpId{1}) == "c");
  CHECK(g.name(OpId{2}) == "z");
  for (const EdgeId e : g.edges()) CHECK(g.edge(e).src < g.edge(e).dst);
  CHECK(g.in_edges(OpId{1}).size() == 1);
  CHECK(g.predecessors(OpId{1})[0] == OpId{0});
  CHECK(g.outputs(OpId{0}).size() == 1);
}

TEST_CASE("a tensor read twice by one op is one edge") {
  const OpGraph g = letters("ab", {"ab", "ab"}).build();
  CHECK(g.num_edges() == 1);
}

TEST_CASE("edges know the order in which they were added, whatever their ids") {
  //  a writes x and y; c reads y (added first), b reads x
  OpGraphBuilder b;
  const OpId a = b.add_op({.name = "a"});
  const OpId r = b.add_op({.name = "b"});
  const OpId c = b.add_op({.name = "c"});
  const TensorId x = b.add_tensor(a, 1_B);
  const TensorId y = b.add_tensor(a, 2_B);
  b.add_edge(y, c);
  b.add_edge(x, r);
  const OpGraph g = std::move(b).build();
  REQUIRE(g.num_edges() == 2);
  CHECK(g.tensor(g.edge(EdgeId{0}).tensor).size == 1_B);
  CHECK(g.added(EdgeId{0}) == 1);
  CHECK(g.added(EdgeId{1}) == 0);
}

TEST_CASE("a control dependency is one 4-byte tensor per source, behind its outputs") {
  const OpGraph g = graph_of("a0 ~> b0; a ~> c0; a -9> c");
  CHECK(g.num_tensors() == 2);
  CHECK(g.num_edges() == 3);
  CHECK(g.tensor(TensorId{1}).control);
  CHECK(g.tensor(TensorId{1}).size == 4_B);
  CHECK(output_bytes(g, OpId{0}) == 9_B);
}

TEST_CASE("a cycle is rejected and listed completely") {
  //  a -> b -> c -> d -> b,  d -> e
  CHECK_REFUSED(letters("abcde", {"ab", "bc", "cd", "db", "de"}).build(),
                "graph: a cycle: b -> c -> d -> b");
  CHECK_REFUSED(letters("ab", {"bb"}).build(), "graph: a cycle: b -> b");
}

TEST_CASE("members of a collective get adjacent ids, in the order of its ranks") {
  //  a -> m,  b -> n
  const auto ids = [](const std::string& added, std::vector<std::size_t> members) {
    OpGraphBuilder b;
    for (std::size_t i = 0; i < added.size(); ++i) b.add_op({.name = added.substr(i, 1)});
    b.add_control(*b.find("a"), *b.find("m"));
    b.add_control(*b.find("b"), *b.find("n"));
    std::vector<OpId> ops;
    for (const std::size_t v : members) ops.push_back(static_cast<OpId>(v));
    b.add_collective({}, ops);
    const OpGraph g = std::move(b).build();
    std::string names;
    for (const OpId v : g.ops()) names += g.name(v);
    return names;
  };
  CHECK(ids("abmn", {2, 3}) == "abmn");
  CHECK(ids("abmn", {3, 2}) == "abnm");
  CHECK(ids("ambn", {1, 3}) == "abmn");  // m waits for b with n
}

TEST_CASE("duplicate op names are rejected, each name once per repetition") {
  CHECK_REFUSED(letters("abba", {}).build(),
                "graph: two ops are named 'b'\ngraph: two ops are named 'a'");
}

TEST_CASE("labels with a common op are one group, named by the shortest, then least, label") {
  auto b = letters("abcd", {});
  b.colocate(OpId{0}, "long");
  b.colocate(OpId{2}, "zz");
  b.colocate(OpId{1}, "long");
  b.colocate(OpId{1}, "zz");
  b.colocate(OpId{3}, "alone");
  const OpGraph g = std::move(b).build();
  REQUIRE(g.num_groups() == 2);
  CHECK(g.op(OpId{0}).group == GroupId{1});
  CHECK(g.op(OpId{2}).group == GroupId{1});
  CHECK(g.group_name(GroupId{1}) == "zz");
  CHECK(g.members(GroupId{1}).size() == 3);
  CHECK(g.members(GroupId{2})[0] == OpId{3});
}

TEST_CASE("with_transfers gives a graph measured transfer times") {
  const OpGraph graph = one_tensor_two_readers();
  const TensorId t{0};
  CHECK_FALSE(graph.measured_transfer(t));
  CHECK(graph.with_transfers(IdVector<TensorId, Duration>(1, 7ns)).measured_transfer(t) == 7ns);
}

TEST_CASE("with_times adds the times of a device type, or replaces them") {
  const OpGraph plain = graph_of("a5");
  const OpId a{0};
  const OpGraph one = plain.with_times("k80", IdVector<OpId, Duration>(1, 20ns));
  CHECK(one.device_kinds() == std::vector<std::string>{"k80"});
  CHECK(one.op(a).compute == 20ns);
  const OpGraph two = one.with_times("v100", IdVector<OpId, Duration>(1, 10ns));
  CHECK(two.compute(a, 0) == 20ns);
  CHECK(two.compute(a, 1) == 10ns);
  CHECK(two.with_times("v100", IdVector<OpId, Duration>(1, 9ns)).compute(a, 1) == 9ns);
  CHECK(two.with_times("k80", IdVector<OpId, Duration>(1, 8ns)).op(a).compute == 8ns);
  CHECK(plain.op(a).compute == 5ns);
}

TEST_CASE("times per device type: the first type is the default; one time applies to all types") {
  auto b = letters("ab", {});
  b.set_compute(OpId{0}, "gpu", 5ns);
  b.set_compute(OpId{0}, "cpu", 50ns);
  const OpGraph g = std::move(b).build();
  CHECK(g.op(OpId{0}).compute == 5ns);
  CHECK(*g.compute(OpId{0}, 1) == 50ns);
  CHECK(*g.compute(OpId{1}, 1) == 1ns);
}
