#include "placers/feasible.h"
#include "tests/message.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/this_build.h"

namespace {

/// Options with which `entry` can be made; nothing if it cannot be run here, or if it searches for
/// a placement that fits by itself.
std::optional<Values> fallback_options(const PlacerEntry& entry) {
  if (entry.memory == CountedMemory::objective || entry.needs == "file") return std::nullopt;
  if (entry.name == "expert") return Values{{"default", value("0")}};
  if (entry.name.starts_with("mip_")) return Values{{"max_nodes", value("0")}};
  if (entry.name != "exec") return Values{};
  if (std::system("python3 -c '' 2>/dev/null") != 0)  // NOLINT(concurrency-mt-unsafe)
    return std::nullopt;
  return Values{{"path", value(source_dir() + "/scenarios/examples/external_placer.py")}};
}

/// Whether `entry` alone, its fallback off, finds no placement whose step fits.
bool fails_alone(const PlacerEntry& entry, Values options, const Problem& problem) {
  options["fallback"] = value("false");
  try {
    return simulate(problem, placer(std::string(entry.name), options)->place(problem, 1))
        .oom.has_value();
  } catch (const InfeasibleError&) {
    return true;
  }
}

/// Calls `test` with random problems of 7 ops on two devices of little memory, of which some
/// placement fits, until it returns true. Returns whether it did.
bool some_tight_problem(const auto& test) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::int64_t bytes : {400, 500, 600, 700, 850}) {
      const RandomProblem random({.ops = 7, .degree = 3, .reach = 5}, 2, seed);
      Cluster cluster = random.cluster;
      for (const DeviceId d : cluster.devices()) cluster.set_memory(d, Bytes{bytes});
      const Problem problem = random.under({}, cluster);
      if (find_feasible(problem).placement && test(problem)) return true;
    }
  }
  return false;
}

}  // namespace

TEST_SUITE_BEGIN("placers");

TEST_CASE("with fallback every placer places what it cannot place alone, and names the placer") {
  for (const PlacerEntry& entry : placers()) {
    const std::optional<Values> options = fallback_options(entry);
    if (!options || entry.name == "auto") continue;
    CAPTURE(entry.name);
    CHECK(some_tight_problem([&](const Problem& problem) {
      if (!fails_alone(entry, *options, problem)) return false;
      Values with = *options;
      with["fallback"] = value("true");
      const Placement found = placer(std::string(entry.name), with)->place(problem, 1);
      CHECK_FALSE(simulate(problem, found).oom);
      CHECK(found.placed_by == "fallback:all");  // at most 2^7 placements
      CHECK(found.detail.starts_with("fallback: the shortest step of all "));
      return true;
    }));
  }
}

TEST_CASE("fallback is off by default, but in auto, refine and search") {
  constexpr std::array<std::string_view, 3> on{"auto", "refine", "search"};
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    CHECK(entry.fallback == (std::ranges::count(on, entry.name) == 1));
  }
}

// Two ops of 10 B on devices of 15 B: except for a permutation of devices, only round_robin's
// placement, one op on each, fits. m_etf finds it, too.
TEST_CASE("if a placer's own placement fits, fallback changes nothing") {
  const Values with{{"fallback", value("true")}};
  for (const char* name : {"round_robin", "m_etf"}) {
    const Placement p = place(name, weights({10, 10}), gpus(2, 15_B), with);
    CHECK(devices(p) == "0 1");
    CHECK(p.placed_by.empty());
  }
}

// single places both ops on the first device, which has memory for one. 20 B do not fit on two
// devices of 9 B.
TEST_CASE("fallback reports why the placer failed, and why nothing else was found") {
  const Values with{{"fallback", value("true")}};
  const Placement p = place("single", weights({10, 10}), gpus(2, 15_B), with);
  CHECK(devices(p) == "1 0");
  CHECK(p.placed_by == "fallback:all");
  const std::string why =
      message<InfeasibleError>([&] { place("m_topo", weights({10, 10}), gpus(2, 9_B), with); });
  CHECK(why ==
        "m_topo: no device has memory for op 'a', which needs 10 B; missing: 1 B on gpu0, 1 B on "
        "gpu1; no "
        "placement fits: op 'a' fits on no device");
}

TEST_SUITE_END();
