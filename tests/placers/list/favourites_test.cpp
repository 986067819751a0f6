#include "placers/interface/registry.h"
#include "placers/list/schedule.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// a(10) --100 B--> f(20) <-- b(10), and a --500 B--> c. Ids: a, b, c, f.
OpGraph fork_and_join(Duration c_time, Bytes of_b) {
  return graph_of(fmt::format("a10; b10; c{}; f20; a -100> f; b -{}> f; a -500> c", c_time.count(),
                              of_b.count));
}

}  // namespace

TEST_SUITE("list scheduler") {
  //   a(10) --100 B--> f(20) <--100 B-- b(10)     f is the favourite child of a
  //     \-----500 B--> c(5)
  // a runs on gpu0, b on gpu1, both until 10. Then f could start at 110 on either device: 10 + 100
  // for the input that is on the other. On no device can f start earlier than on gpu0, so gpu0
  // waits for f until 110, although c could start there at 10, and c ends at 110 + 20 + 5. (c is
  // not urgent before its input could be on gpu1, at 510.)
  TEST_CASE("a device waits for a favourite that could start as early, not earlier, on another") {
    const auto& [graph, cluster, costs, problem] = OwnedProblem(fork_and_join(5ns, 100_B), gpus(2));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[OpId{0}] = OpId{3};

    const auto waiting = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(waiting.placement);
    CHECK(waiting.placement->device[OpId{3}] == gpu0);
    CHECK(waiting.placement->facts.at("planned_step_us") == 0.135);

    favourite[OpId{0}] = no_op;
    const auto greedy = list::schedule(problem, favourite, Variant::standard, {});
    CHECK(greedy.placement->facts.at("planned_step_us") == 0.130);  // c from 10, f from 110 on
  }

  // f is the favourite child of a. gpu0 waits for it until 110, but from 60 on c is urgent, which
  // could then start on gpu1, too; nothing runs before.
  TEST_CASE("a device that waits for a favourite runs what could start on any other device") {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(graph_of("a10 -50> c5; b10 -100> f20; a -100> f"), gpus(2));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[*graph.find("a")] = *graph.find("f");
    const auto found = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(found.placement);
    CHECK(found.placement->device[*graph.find("c")] == gpu0);
    CHECK(found.placement->facts.at("planned_step_us") == 0.130);  // c from 60, f from 110 on
  }

  //   a(10) --100 B--> f(20) <--300 B-- b(10)     f is the favourite child of a
  //     \-----500 B--> c(50)
  // a runs on gpu0, b on gpu1. On gpu0 f could start at 310, on gpu1 at 110: gpu0 does not wait for
  // it, and runs c from 10 to 60. If it waited until f has begun, c would end at 160.
  TEST_CASE("a device does not wait for a favourite that could start earlier on another") {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(fork_and_join(50ns, 300_B), gpus(2));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[OpId{0}] = OpId{3};
    const auto found = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(found.placement);
    CHECK(found.placement->device[OpId{3}] == gpu1);
    CHECK(found.placement->facts.at("planned_step_us") == 0.130);
    // The priority is the order of starts: a, b, c, f.
    for (const OpId v : graph.ops())
      CHECK(found.placement->priority[v] == 4 - static_cast<int>(index(v)));
  }

  //   a(10) --100 B--> f(20), 500 B of weights, the favourite child of a
  //     \-----500 B--> c(50)
  // On gpu0 lie 600 B of a's outputs: of 1000 B, 400 are left. f goes to gpu1, from 110 to 130, and
  // gpu0 runs c from 10 on.
  TEST_CASE("a device does not wait for a favourite that does not fit") {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(graph_of("a10; c50; f20,w500; a -100> f; a -500> c"), gpus(2, 1000_B));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[OpId{0}] = OpId{2};
    const auto found = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(found.placement);
    CHECK(found.placement->device == on({gpu0, gpu0, gpu1}).device);
    CHECK(found.placement->facts.at("planned_step_us") == 0.130);
  }

  // As above, but f and a are on one device: gpu0 waits for f until 310, and runs c from 330 on.
  TEST_CASE(
      "a device waits for a favourite that may go nowhere else, where it could start earlier") {
    const auto& [graph, cluster, costs, problem] = OwnedProblem(
        graph_of("a10,c:g; b10; c50; f20,c:g; a -100> f; b -300> f; a -500> c"), gpus(2));
    IdVector<OpId, OpId> favourite(graph.num_ops(), no_op);
    favourite[OpId{0}] = OpId{3};
    const auto found = list::schedule(problem, favourite, Variant::standard, {});
    REQUIRE(found.placement);
    CHECK(found.placement->device[OpId{3}] == gpu0);
    CHECK(found.placement->facts.at("planned_step_us") == 0.380);
  }

  // a and b run in parallel from 0 on, and leave 40 and 70 of 100 B, or 70 and 40. c needs 90.
  TEST_CASE("a stuck schedule is reported with the device that has most memory left") {
    for (const auto& [weights, roomiest] :
         {std::pair{"a10,w60; b10,w30", "gpu1"}, {"a10,w30; b10,w60", "gpu0"}}) {
      const auto& [graph, cluster, costs, problem] =
          OwnedProblem(graph_of(fmt::format("{}; a ~> c10,w90; b ~> c", weights)), gpus(2, 100_B));
      const auto stuck = list::schedule(problem, {}, Variant::standard, {});
      CHECK_FALSE(stuck.placement);
      CHECK(stuck.stuck ==
            fmt::format("stuck with 2 of 3 ops placed: op 'c' needs 90 B of weights, 0 B while it "
                        "runs and up to 0 B for copies of its inputs; {}, the one with most memory "
                        "left, has 70 B left above its peak",
                        roomiest));
    }
  }

  // c needs 50 + 60 B beside 10 B of weights, and its group is on gpu0; gpu1 is empty.
  TEST_CASE("a stuck op of a placed group is reported with the device of its group") {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(graph_of("a10,w10,c:g -50> c10,t60,c:g"), gpus(2, 100_B));
    CHECK(list::schedule(problem, {}, Variant::standard, {})
              .stuck.ends_with("; gpu0, where its group is, has 40 B left above its peak"));
  }

  // As above, and c reads 7 and 4 B of a, which is on gpu0.
  TEST_CASE("a stuck schedule counts the copies of inputs that other devices produce") {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(graph_of("a10,w60; b10,w30; a -7> c10,w90; a -4> c; b ~> c"), gpus(2, 100_B));
    const auto stuck = list::schedule(problem, {}, Variant::standard, {});
    CAPTURE(stuck.stuck);
    CHECK(stuck.stuck.find("up to 11 B for copies of its inputs; gpu1") != std::string::npos);
  }
}

namespace {

/// The same costs, but without the information that devices or links are equal.
class SecretCosts : public CostModel {
 public:
  Duration collective(const Collective&, std::span<const DeviceId>) const override { return {}; }
  explicit SecretCosts(const CostModel& costs) : costs_(costs) {}
  Duration compute(OpId op, DeviceId device) const override { return costs_.compute(op, device); }
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override {
    return costs_.transfer(tensor, src, dst);
  }
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override {
    return costs_.latency(tensor, src, dst);
  }

 private:
  const CostModel& costs_;
};

/// Device number n takes n parts of 8 off the time of each op.
class UnequalCosts final : public SecretCosts {
 public:
  using SecretCosts::SecretCosts;
  Duration compute(OpId op, DeviceId device) const override {
    return SecretCosts::compute(op, device) / 8 * (8 - static_cast<int>(index(device)));
  }
};

/// The cluster with the same memory for all devices, or the cluster itself.
Cluster with_memory(const Cluster& cluster, Bytes memory) {
  IdVector<DeviceId, Device> devices;
  for (const DeviceId d : cluster.devices()) {
    devices.push_back(cluster.device(d));
    devices[d].memory = memory;
  }
  Cluster result = Cluster::uniform(std::move(devices), {});
  for (const DeviceId src : cluster.devices())
    for (const DeviceId dst : cluster.devices()) result.set_link(src, dst, cluster.link(src, dst));
  return result;
}

/// The devices and priorities as text, or the reason why there are none.
std::string answer(const Placer& placer, const Problem& problem) {
  try {
    const Placement placement = placer.place(problem, 0);
    std::string text;
    for (const OpId v : problem.graph.ops())
      text += fmt::format("{}:{} ", index(placement.device[v]),
                          placement.priority.empty() ? 0 : placement.priority[v]);
    return text;
  } catch (const InfeasibleError& e) {
    return e.what();
  }
}

}  // namespace

TEST_SUITE("list scheduler") {
  // If devices are known to be equal and memory is ample, devices without an input are tested all
  // at once; otherwise each device is tested.
  TEST_CASE("testing fewer devices does not change the schedule") {
    std::vector<std::unique_ptr<Placer>> placers;
    placers.push_back(make_placer("m_etf"));
    placers.push_back(make_placer("m_sct"));
    std::size_t feasible = 0;
    for (std::uint64_t seed = 0; seed < 120; ++seed) {
      const RandomProblem random({.ops = 60, .degree = 3, .reach = 30},
                                 2 + static_cast<std::uint32_t>(seed % 23), seed);
      const Cluster tight =
          with_memory(random.cluster, Bytes{1500 + 500 * static_cast<std::int64_t>(seed % 5)});
      for (const Transfers transfers : {Transfers::sequential, Transfers::parallel,
                                        Transfers::duplex, Transfers::shared, Transfers::staged}) {
        for (const bool cache : {true, false}) {
          const EngineOptions engine{.transfers = transfers, .cache_tensors = cache};
          const SecretCosts secret(random.costs);
          const Cluster& cluster = seed % 2 == 0 ? random.cluster : tight;
          INFO("seed ", seed, ", transfers ", static_cast<int>(transfers), ", cache ", cache);
          const auto& placer = *placers[seed % 4 / 2];
          const std::string text = answer(placer, {random.graph, cluster, random.costs, engine});
          CHECK(text == answer(placer, {random.graph, cluster, secret, engine}));
          if (!text.starts_with("m_")) ++feasible;
        }
      }
    }
    CHECK(feasible > 600);  // of 1200
  }

  TEST_CASE("of devices where an op could start now it takes the one where it ends first") {
    for (const Bytes memory : {1000_B, 100_B}) {
      const OwnedProblem owned(graph_of("a80,w60; b80,w60"), gpus(4, memory));
      const UnequalCosts costs(owned.costs);
      const auto found =
          list::schedule({owned.graph, owned.cluster, costs, {}}, {}, Variant::standard, {});
      REQUIRE(found.placement);
      CHECK(found.placement->device == on({gpu3, gpu2}).device);
    }
  }

  // The answer of a placer is the first plan, of five with more and more room, that does not run
  // out of memory when it is simulated. Here each plan is made and simulated by itself.
  TEST_CASE("a placement is the first of five plans that fits, with room for groups or without") {
    std::size_t by_room = 0, later = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const RandomProblem random({.ops = 30, .degree = 3, .reach = 20}, 3, seed);
      const Cluster cluster =
          with_memory(random.cluster, Bytes{1500 + 250 * static_cast<std::int64_t>(seed % 8)});
      const Problem problem{random.graph, cluster, random.costs, {}};
      std::string answers[2];
      for (const bool reserve : {false, true}) {
        INFO("seed ", seed, ", reserve ", reserve);
        std::string expected = "none";
        double attempts = 0;
        for (list::MemoryMargin margin : {list::MemoryMargin{},
                                          {.spare = 1},
                                          {.spare = 2},
                                          {.memory_share = 0.9, .spare = 2},
                                          {.keep_all = true}}) {
          ++attempts;
          margin.reserve = reserve;
          const auto plan = list::schedule(problem, {}, Variant::standard, margin);
          if (!plan.placement || simulate(problem, *plan.placement).oom) continue;
          expected = fmt::format("{} {}", attempts, plan.placement->facts.at("planned_step_us"));
          break;
        }
        std::string& found = answers[reserve ? 1 : 0];
        try {
          const auto placement = list::place(problem, {.reserve = reserve}, "m_etf");
          found = fmt::format("{} {}", placement.facts.at("attempts"),
                              placement.facts.at("planned_step_us"));
        } catch (const InfeasibleError&) {
          found = "none";
        }
        CHECK(found == expected);
        later += found != "none" && !found.starts_with("1 ");
      }
      by_room += answers[0] != answers[1];
    }
    CHECK(by_room > 5);
    CHECK(later > 5);
  }
}
