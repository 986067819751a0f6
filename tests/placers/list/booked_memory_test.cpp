#include "placers/list/booked_memory.h"

#include "tests/prelude.h"

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

constexpr OpId a{0}, b{1}, c{2}, d{3};

}  // namespace

TEST_SUITE("list scheduler") {
  TEST_CASE("an output without readers is freed when its op has ended") {
    Booked booked(small_graph({{60_B}, {60_B}}), 100_B);
    booked.start(a, gpu0);
    CHECK_FALSE(booked.has_room(b, gpu0));  // 60 + 60 > 100
    booked.end(a);
    CHECK(booked.has_room(b, gpu0));
  }

  //   a --60 B--> b, c     d: an output of 60 B
  TEST_CASE("a copy is freed when its last reader so far on that device has ended") {
    Booked booked(small_graph({{60_B}, {}, {}, {60_B}}, {{0, 1}, {0, 2}}), 100_B);
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
      Booked booked(small_graph({{40_B, 60_B}, {10_B, 0_B, 1_B}}), limit);
      CHECK(booked.has_room(a, gpu0) == (limit == 100_B));
    }
    Booked booked(small_graph({{0_B, 100_B}, {0_B, 1_B}}), 100_B);
    CHECK(booked.memory.weights_fit(a, gpu0));
    booked.start(a, gpu0);
    CHECK_FALSE(booked.memory.weights_fit(b, gpu0));
  }

  TEST_CASE("free memory is exact to the byte") {
    Booked booked(small_graph({{60_B}, {60_B}}), 100_B);
    booked.start(a, gpu0);
    CHECK(booked.memory.is_free(40_B, gpu0));
    CHECK_FALSE(booked.memory.is_free(41_B, gpu0));
  }

  // The group's only member needs 30 B; as much again must stay free.
  TEST_CASE("with a spare, as much as the largest member needs stays free") {
    for (const Bytes limit : {80_B, 79_B, 60_B, 59_B}) {
      CAPTURE(limit.count);
      Booked booked(small_graph({{.output = 30_B, .group = "group"}, {20_B}, {50_B}}), limit,
                    {.spare = 1});
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
      Booked booked(small_graph({{30_B}, {.output = 10_B, .group = "group"}, {60_B}}, {{0, 1}}),
                    limit, {.spare = 1});
      booked.start(*booked.graph.find("a"), gpu0);
      CHECK(booked.has_room(*booked.graph.find("b"), gpu1) == (limit >= 80_B));
    }
  }

  // The most demanding member is b, which needs 50 B.
  TEST_CASE("memory is reserved for a group until its last member has started") {
    Booked booked(
        small_graph(
            {{.output = 10_B, .group = "group"}, {.temporary = 50_B, .group = "group"}, {30_B}}),
        79_B, {.reserve = true});
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
  // All outputs of the group, 10 + 40 B, and the workspace of 50 B.
  TEST_CASE("if nothing is freed, a group needs its outputs and the workspace of its first op") {
    for (const Bytes limit : {100_B, 99_B}) {
      Booked booked(graph_of("a10,t50,c:g -10> .; b10,c:g -40> .; c10,w500"), limit,
                    {.keep_all = true});
      CHECK(booked.has_room(*booked.graph.find("a"), gpu0) == (limit == 100_B));
    }
  }

  TEST_CASE("if nothing is freed, the outputs of a group are reserved until they exist") {
    const SmallOp member{.output = 10_B, .group = "group"};
    Booked booked(small_graph({member, member, {30_B}, {31_B}}), 50_B, {.keep_all = true});
    booked.start(a, gpu0);
    booked.end(a);
    CHECK(booked.has_room(c, gpu0));        // 10 of a + 10 reserved + 30 = 50
    CHECK_FALSE(booked.has_room(d, gpu0));  // + 31 = 51
    booked.start(b, gpu0);
    booked.end(b);
    CHECK(booked.has_room(c, gpu0));  // 10 of a + 10 of b + 30: nothing is reserved any more
    CHECK_FALSE(booked.has_room(d, gpu0));
    Booked exact(small_graph({member, member, {30_B}}), 20_B, {.keep_all = true});
    exact.start(a, gpu0);
    CHECK(exact.has_room(b, gpu0));  // what is reserved is for b
    const SmallOp works{.temporary = 30_B};
    Booked shared(small_graph({works, works, {11_B}}), 40_B, {.keep_all = true});
    shared.start(a, gpu0);
    CHECK(shared.has_room(b, gpu0));  // in the workspace of a
    CHECK_FALSE(shared.has_room(c, gpu0));
  }

  // 60 of weights, 30 and 10 of outputs, and a copy of 30: 130 B on one device at most.
  TEST_CASE("memory is ample if every device can hold all ops, exact to the byte") {
    for (const Bytes limit : {130_B, 129_B}) {
      const auto& [graph, cluster, costs, problem] =
          OwnedProblem(small_graph({{30_B, 60_B}, {10_B}}, {{0, 1}}), gpus(2, limit));
      const BookedTransfers transfers(problem, Transfers::sequential);
      CHECK(BookedMemory(problem, transfers, {}).ample() == (limit == 130_B));
    }
  }

  // Weights of 40 and 50 B.
  TEST_CASE("the weights of a group are allocated once, with its first member") {
    Booked booked(small_graph({{.persistent = 40_B, .group = "group"},
                               {.persistent = 50_B, .group = "group"},
                               {.persistent = 60_B}}),
                  100_B);
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
    Booked booked(small_graph({{60_B}, {30_B}, {30_B}}, {{0, 1}, {0, 2}}), 120_B);
    booked.start(a, gpu0);
    booked.end(a);
    booked.start(b, gpu1);
    CHECK(booked.memory.need(c, gpu1) == 30_B);
    CHECK(booked.has_room(c, gpu1));  // 60 of the copy + 30 of b + 30
    CHECK(booked.memory.need(c, gpu0) == 30_B);
  }
}
