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
  }
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
};

constexpr OpId a{0}, b{1};

}  // namespace

TEST_SUITE("list scheduler") {
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

  // All outputs of the group, 10 + 40 B, and the workspace of 50 B.
  TEST_CASE("if nothing is freed, a group needs its outputs and the workspace of its first op") {
    for (const Bytes limit : {100_B, 99_B}) {
      Booked booked(graph_of("a10,t50,c:g -10> .; b10,c:g -40> .; c10,w500"), limit,
                    {.keep_all = true});
      CHECK(booked.has_room(*booked.graph.find("a"), gpu0) == (limit == 100_B));
    }
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
}
