#include "placers/list/booked_memory.h"

#include <doctest/doctest.h>

#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using baechi::list::BookedMemory;
using baechi::list::BookedTransfers;
using baechi::list::MemoryMargin;

namespace {

/// The memory of two devices while ops start and end on them, as the test says.
struct Booked {
  Booked(OpGraph g, Bytes limit, MemoryMargin margin = {})
      : graph(std::move(g)), cluster(gpus(2, limit)), memory(problem, transfers, margin) {
    REQUIRE_FALSE(memory.ample());
  }

  void start(OpId v, DeviceId d) {
    transfers.find_inputs(v);
    transfers.book(v, d);
    memory.start(v, d);
    transfers.schedule(v, d, TimePoint{});
    device[index(v)] = d;
  }
  void end(OpId v) { memory.end(v, device[index(v)]); }
  bool has_room(OpId v, DeviceId d) {
    transfers.find_inputs(v);
    return memory.has_room(v, d);
  }

  OpGraph graph;
  Cluster cluster;
  ProfiledCosts costs{graph, cluster};
  Problem problem{graph, cluster, costs};
  BookedTransfers transfers{problem, Transfers::sequential};
  BookedMemory memory;
  std::vector<DeviceId> device = std::vector<DeviceId>(graph.num_ops());
};

/// Ops without inputs, whose outputs have no readers.
OpGraph lone_ops(std::initializer_list<Bytes> outputs) {
  OpGraphBuilder g;
  for (std::string name = "a"; const Bytes size : outputs) {
    g.add_tensor(g.add_op({.name = name, .compute = 1ns}), size);
    ++name[0];
  }
  return std::move(g).build();
}

constexpr OpId a{0}, b{1}, c{2}, d{3};

}  // namespace

TEST_SUITE("list scheduler") {
  TEST_CASE("an output without readers is freed when its op has ended") {
    Booked booked(lone_ops({60_B, 60_B}), 100_B);
    booked.start(a, gpu0);
    CHECK_FALSE(booked.has_room(b, gpu0));  // 60 + 60 > 100
    booked.end(a);
    CHECK(booked.has_room(b, gpu0));
  }

  //   a --60 B--> b, c     d: an output of 60 B
  TEST_CASE("a copy is freed when its last reader so far on that device has ended") {
    OpGraphBuilder g;
    for (const char* name : {"a", "b", "c", "d"}) g.add_op({.name = name, .compute = 1ns});
    const TensorId t = g.add_tensor(a, 60_B);
    g.add_edge(t, b);
    g.add_edge(t, c);
    g.add_tensor(d, 60_B);
    Booked booked(std::move(g).build(), 100_B);
    booked.start(a, gpu0);
    booked.end(a);
    booked.start(b, gpu1);
    booked.start(c, gpu1);
    booked.end(b);
    CHECK_FALSE(booked.has_room(d, gpu1));  // the copy of 60 that c reads + 60 > 100
    CHECK_FALSE(booked.has_room(d, gpu0));  // the tensor itself
    booked.end(c);
    CHECK(booked.has_room(d, gpu1));
    CHECK(booked.has_room(d, gpu0));
  }

  // Both ops at once need 60 + 40 + 1 + 10 B.
  TEST_CASE("an op fits if it takes the last byte") {
    for (const Bytes limit : {100_B, 99_B}) {
      OpGraphBuilder g;
      g.add_tensor(g.add_op({.name = "a", .compute = 1ns, .persistent = 60_B}), 40_B);
      g.add_tensor(g.add_op({.name = "b", .compute = 1ns, .temporary = 1_B}), 10_B);
      Booked booked(std::move(g).build(), limit);
      CHECK(booked.has_room(a, gpu0) == (limit == 100_B));
    }
    OpGraphBuilder g;
    g.add_op({.name = "a", .compute = 1ns, .persistent = 100_B});
    g.add_op({.name = "b", .compute = 1ns, .persistent = 1_B});
    Booked booked(std::move(g).build(), 100_B);
    CHECK(booked.memory.weights_fit(a, gpu0));
    booked.start(a, gpu0);
    CHECK_FALSE(booked.memory.weights_fit(b, gpu0));
  }

  TEST_CASE("free memory is exact to the byte") {
    Booked booked(lone_ops({60_B, 60_B}), 100_B);
    booked.start(a, gpu0);
    CHECK(booked.memory.is_free(40_B, gpu0));
    CHECK_FALSE(booked.memory.is_free(41_B, gpu0));
  }

  // The group's only member needs 30 B; as much again must stay free.
  TEST_CASE("with a spare, as much as the largest member needs stays free") {
    for (const Bytes limit : {80_B, 79_B, 60_B, 59_B}) {
      CAPTURE(limit.count);
      OpGraphBuilder g;
      g.add_tensor(g.add_op({.name = "a", .compute = 1ns}), 30_B);
      g.add_tensor(g.add_op({.name = "b", .compute = 1ns}), 20_B);
      g.add_tensor(g.add_op({.name = "c", .compute = 1ns}), 50_B);
      g.colocate(a, "group");
      Booked booked(std::move(g).build(), limit, {.spare = 1});
      CHECK(booked.has_room(a, gpu0) == (limit >= 60_B));  // 30 + 30
      CHECK(booked.has_room(b, gpu0));                     // no group is here
      booked.start(a, gpu0);
      CHECK(booked.has_room(b, gpu0) == (limit >= 80_B));  // 30 of a + 20 + 30
    }
  }

  // b reads 30 B of a, on the other device, and writes 10 B: 40 B, and as much again stays free.
  TEST_CASE("with a spare, the inputs of the largest member count, too") {
    for (const Bytes limit : {80_B, 79_B}) {
      CAPTURE(limit.count);
      OpGraphBuilder g;
      const TensorId read = g.add_tensor(g.add_op({.name = "a", .compute = 1ns}), 30_B);
      const OpId reader = g.add_op({.name = "b", .compute = 1ns});
      g.add_edge(read, reader);
      g.add_tensor(reader, 10_B);
      g.add_tensor(g.add_op({.name = "c", .compute = 1ns}), 60_B);
      g.colocate(reader, "group");
      Booked booked(std::move(g).build(), limit, {.spare = 1});
      booked.start(*booked.graph.find("a"), gpu0);
      CHECK(booked.has_room(*booked.graph.find("b"), gpu1) == (limit >= 80_B));
    }
  }

  // The most demanding member is b, which needs 50 B.
  TEST_CASE("memory is reserved for a group until its last member has started") {
    OpGraphBuilder g;
    g.add_tensor(g.add_op({.name = "a", .compute = 1ns}), 10_B);
    g.add_op({.name = "b", .compute = 1ns, .temporary = 50_B});
    g.add_tensor(g.add_op({.name = "c", .compute = 1ns}), 30_B);
    g.colocate(a, "group");
    g.colocate(b, "group");
    Booked booked(std::move(g).build(), 79_B, {.reserve = true});
    CHECK(booked.has_room(c, gpu0));
    booked.start(a, gpu0);
    booked.end(a);
    CHECK_FALSE(booked.has_room(c, gpu0));  // 50 reserved + 30 > 79
    CHECK(booked.has_room(b, gpu0));        // the member for which it is reserved
    booked.start(b, gpu0);
    booked.end(b);
    CHECK(booked.has_room(c, gpu0));
  }

  // Both members have an output of 10 B.
  TEST_CASE("if nothing is freed, the outputs of a group are reserved until they exist") {
    OpGraphBuilder g;
    g.add_tensor(g.add_op({.name = "a", .compute = 1ns}), 10_B);
    g.add_tensor(g.add_op({.name = "b", .compute = 1ns}), 10_B);
    g.add_tensor(g.add_op({.name = "c", .compute = 1ns}), 30_B);
    g.add_tensor(g.add_op({.name = "d", .compute = 1ns}), 31_B);
    g.colocate(a, "group");
    g.colocate(b, "group");
    Booked booked(std::move(g).build(), 50_B, {.keep_all = true});
    booked.start(a, gpu0);
    booked.end(a);
    CHECK(booked.has_room(c, gpu0));        // 10 of a + 10 reserved + 30 = 50
    CHECK_FALSE(booked.has_room(d, gpu0));  // + 31 = 51
    booked.start(b, gpu0);
    booked.end(b);
    CHECK(booked.has_room(c, gpu0));  // 10 of a + 10 of b + 30: nothing is reserved any more
    CHECK_FALSE(booked.has_room(d, gpu0));
  }

  // 60 of weights, 30 and 10 of outputs, and a copy of 30: 130 B on one device at most.
  TEST_CASE("memory is ample if every device can hold all ops, exact to the byte") {
    for (const Bytes limit : {130_B, 129_B}) {
      OpGraphBuilder g;
      const OpId first = g.add_op({.name = "a", .compute = 1ns, .persistent = 60_B});
      g.add_edge(g.add_tensor(first, 30_B), g.add_op({.name = "b", .compute = 1ns}));
      g.add_tensor(b, 10_B);
      const OpGraph graph = std::move(g).build();
      const Cluster cluster = gpus(2, limit);
      const ProfiledCosts costs(graph, cluster);
      const Problem problem{graph, cluster, costs};
      const BookedTransfers transfers(problem, Transfers::sequential);
      CHECK(BookedMemory(problem, transfers, {}).ample() == (limit == 130_B));
    }
  }

  // Weights of 40 and 50 B.
  TEST_CASE("the weights of a group are allocated once, with its first member") {
    OpGraphBuilder g;
    g.add_op({.name = "a", .compute = 1ns, .persistent = 40_B});
    g.add_op({.name = "b", .compute = 1ns, .persistent = 50_B});
    g.add_op({.name = "c", .compute = 1ns, .persistent = 60_B});
    g.colocate(a, "group");
    g.colocate(b, "group");
    Booked booked(std::move(g).build(), 100_B);
    CHECK(booked.memory.weights_to_place(b) == 90_B);
    booked.start(a, gpu0);
    booked.end(a);
    CHECK(booked.memory.weights_to_place(b) == 0_B);
    CHECK(booked.memory.left(gpu0) == 10_B);
    CHECK(booked.has_room(b, gpu0));
    booked.start(b, gpu0);
    CHECK(booked.memory.left(gpu0) == 10_B);
  }

  //   a --60 B--> b, c, which write 30 B each
  TEST_CASE("an existing copy is not allocated again") {
    OpGraphBuilder g;
    for (const char* name : {"a", "b", "c"}) g.add_op({.name = name, .compute = 1ns});
    const TensorId t = g.add_tensor(a, 60_B);
    g.add_edge(t, b);
    g.add_edge(t, c);
    g.add_tensor(b, 30_B);
    g.add_tensor(c, 30_B);
    Booked booked(std::move(g).build(), 120_B);
    booked.start(a, gpu0);
    booked.end(a);
    booked.start(b, gpu1);
    CHECK(booked.memory.need(c, gpu1) == 30_B);
    CHECK(booked.has_room(c, gpu1));  // 60 of the copy + 30 of b + 30
    CHECK(booked.memory.need(c, gpu0) == 30_B);
  }
}
