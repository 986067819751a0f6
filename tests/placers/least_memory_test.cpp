#include "placers/feasible.h"
#include "placers/interface/colocation.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// The least peak of the fullest device, over all placements with whole groups.
Bytes least_peak(const Problem& p) {
  const std::size_t devices = p.cluster.num_devices();
  const ColocationUnits units(p.graph);
  Placement placement{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
  std::size_t all = 1;
  for (std::size_t i = 0; i < p.graph.num_ops(); ++i) all *= devices;
  Bytes least{std::int64_t{1} << 60};
  for (std::size_t i = 0; i < all; ++i) {
    std::size_t rest = i;
    for (const OpId v : p.graph.ops()) {
      placement.device[v] = static_cast<DeviceId>(rest % devices);
      rest /= devices;
    }
    if (std::ranges::any_of(p.graph.ops(), [&](OpId v) {
          return placement.device[v] != placement.device[units.members(units.of(v)).front()];
        }))
      continue;
    Bytes peak;
    for (const DeviceUse& d : simulate(p, placement).devices) peak = std::max(peak, d.peak);
    least = std::min(least, peak);
  }
  return least;
}

}  // namespace

TEST_SUITE_BEGIN("placers");
// 5 + 4 and 3 + 3 + 3: the only even partition of 18 B.
TEST_CASE("an enumeration of all placements finds the one that fits, or proves that none does") {
  const OpGraph graph = weights({3, 5, 3, 4, 3});
  const Cluster nine = gpus(2, 9_B), eight = gpus(2, 8_B);
  const ProfiledCosts costs(graph, nine);
  const FittingPlacement found = first_that_fits({graph, nine, costs}, 1000);
  REQUIRE(found.placement);
  CHECK(found.placement->device[OpId{1}] == found.placement->device[OpId{3}]);
  CHECK_FALSE(simulate({graph, nine, costs}, *found.placement).oom);

  const FittingPlacement none = first_that_fits({graph, eight, costs}, 1000);
  CHECK_FALSE(none.placement);
  CHECK(none.all);
  const FittingPlacement cut_off = first_that_fits({graph, nine, costs}, 4);
  CHECK_FALSE(cut_off.placement);
  CHECK_FALSE(cut_off.all);
}

// 15 ops, 2^15 placements: only 9 partition 30 B evenly, and 14 B are too few.
TEST_CASE("where moves find nothing, all placements that may fit are enumerated") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(weights({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 14}), gpus(2, 15_B));
  const Cluster small = gpus(2, 14_B);
  CHECK(find_feasible(problem).placement);
  const Feasible none = find_feasible({graph, small, costs});
  CHECK_FALSE(none.placement);
  CHECK(none.proved);
  const LeastMemory least = find_least_memory({graph, small, costs});
  CHECK(least.bytes == 15_B);
  CHECK(least.proved());
}

// Three ops of 10 B on two devices: 20 B, although 15 B each would hold 30 B.
TEST_CASE("the least memory is proved above the mean memory of all ops") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(weights({10, 10, 10}), gpus(2));
  const LeastMemory least = find_least_memory(problem);
  CHECK(least.bytes == 20_B);
  CHECK(least.bound == 20_B);
}

TEST_CASE("the least memory equals that of an enumeration of all placements") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 8}, seed % 2 == 0 ? 2 : 3, seed);
    const Problem problem = random.under({});
    const LeastMemory least = find_least_memory(problem);
    CHECK(least.bytes == least_peak(problem));
    CHECK(least.proved());
  }
}

/// How often placers give up where memory is tight: random problems whose least feasible memory is
/// known, because every placement of them is simulated.
namespace {

/// The least equal memory of the devices with which some placement's step fits: the least highest
/// peak over all placements' steps, simulated without limits. Memory does not change a step that
/// fits.
Bytes least_feasible_memory(const RandomProblem& random) {
  const Problem unlimited = random.under({.enforce_memory = false});
  const ColocationUnits units(random.graph);
  const std::size_t devices = random.cluster.num_devices();
  Simulator simulator(unlimited);
  Placement p{.device = IdVector<OpId, DeviceId>(random.graph.num_ops())};
  IdVector<UnitId, std::size_t> at(units.size());
  Bytes least{std::int64_t{1} << 62};
  for (std::size_t u = 0; u < units.size();) {
    for (const OpId v : random.graph.ops()) p.device[v] = static_cast<DeviceId>(at[units.of(v)]);
    Bytes highest;
    for (const auto& d : simulator.run(p).devices) highest = std::max(highest, d.peak);
    least = std::min(least, highest);
    for (u = 0; u < units.size(); ++u) {  // the next number, unit 0 is the lowest digit
      std::size_t& digit = at[static_cast<UnitId>(u)];
      digit = (digit + 1) % devices;
      if (digit > 0) break;
    }
  }
  return least;
}

struct Count {
  int asked = 0, infeasible = 0, out_of_memory = 0;
  double failed() const { return static_cast<double>(infeasible + out_of_memory) / asked; }
};

/// Counts the result of `placer` for the problem with `memory` on each device.
void count_result(const char* placer, const RandomProblem& random, Bytes memory, Count& count) {
  Cluster cluster = random.cluster;
  for (const DeviceId d : cluster.devices()) cluster.set_memory(d, memory);
  const Problem problem = random.under({}, cluster);
  ++count.asked;
  try {
    const Options options(placer, {{"fallback", {"true", {}, {}}}});
    if (simulate(problem, make_placer(placer, options)->place(problem, 0)).oom)
      ++count.out_of_memory;
  } catch (const InfeasibleError&) {
    ++count.infeasible;
  }
}

}  // namespace

TEST_SUITE_BEGIN("placers");
TEST_CASE("placers with fallback seldom give up where a placement fits") {
  const std::uint32_t graphs = thorough() ? 1000 : 60;
  // 2 devices: at most 512 placements, of which the fallback tries all. 3 devices: up to
  // 19,683, which are too many for it.
  for (const bool large : {false, true}) {
    std::map<std::string, Count> counts;
    for (std::uint32_t i = 0; i < (large ? graphs / 3 : graphs); ++i) {
      const RandomProblem random({.ops = large ? 9 : 4 + i % 6, .degree = 3, .reach = 5},
                                 large ? 3 : 2, 1000 + i);
      const Bytes least = least_feasible_memory(random);
      for (const char* placer : {"m_etf", "m_sct", "m_topo"}) {
        for (const int percent : {100, 110, 130})
          count_result(placer, random, Bytes{(least.count * percent + 99) / 100},
                       counts[fmt::format("{} at {} %", placer, percent)]);
      }
    }
    for (const auto& [what, count] : counts) {
      if (thorough())
        MESSAGE(fmt::format("{}, {}: {} infeasible, {} out of memory of {}", what,
                            large ? "9 ops, 3 devices" : "4-9 ops, 2 devices", count.infeasible,
                            count.out_of_memory, count.asked));
      if (!large)
        CHECK(count.failed() == 0);
      else if (!what.ends_with("100 %"))
        CHECK(count.failed() < 0.03);
    }
  }
}
