#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "sim/cluster/bounds.h"
#include "tests/random_problems.h"
#include "tests/schedule_checker.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// The faults, one per line: what a failing test prints.
std::string joined(const std::vector<std::string>& faults) {
  std::string all;
  for (const std::string& f : faults) all += "\n  " + f;
  return all;
}

bool same(const StepResult& a, const StepResult& b) {
  const auto same_use = [](const DeviceUse& x, const DeviceUse& y) {
    return x.busy == y.busy && x.peak == y.peak && x.at_peak == y.at_peak;
  };
  return a.oom.has_value() == b.oom.has_value() && a.makespan == b.makespan &&
         std::ranges::equal(a.devices, b.devices, same_use) && a.moved == b.moved &&
         a.transfers == b.transfers && a.events == b.events;
}

bool same_request(const OutOfMemory& a, const OutOfMemory& b) {
  return a.device == b.device && a.op == b.op && a.transfer == b.transfer && a.at == b.at &&
         a.needed == b.needed && a.live == b.live;
}

/// What was told up to the failure of `failed` is how `other` begins.
bool begins_alike(const RecordedRun& failed, const RecordedRun& other) {
  const auto same_work = [](const Work& a, const Work& b) {
    return a.is_transfer == b.is_transfer && a.op == b.op && a.tensor == b.tensor &&
           a.dst == b.dst && a.start == b.start && a.end == b.end;
  };
  return failed.work.size() <= other.work.size() &&
         std::equal(failed.work.begin(), failed.work.end(), other.work.begin(), same_work);
}

/// `cluster` with some devices a little or much smaller than what the run needed at most.
Cluster squeezed(const Cluster& cluster, const StepResult& ample, Random& random) {
  Cluster result = cluster;
  for (const DeviceId d : cluster.devices()) {
    const std::int64_t peak = ample.devices[d].peak.count;
    const auto below = static_cast<std::int64_t>(random.uniform() * static_cast<double>(peak + 1));
    const std::int64_t limits[] = {peak, peak - std::min<std::int64_t>(peak, 1), below};
    result = with_memory(result, d, Bytes{limits[random.below(3)]});
  }
  return result;
}

/// The verdict is exact: with a byte less than it asks for the run fails alike, with all it asks
/// for it goes on.
void check_boundary(const RandomProblem& p, EngineOptions engine, const Cluster& tight,
                    const RecordedRun& failed) {
  const OutOfMemory& oom = *failed.result.oom;
  const Bytes enough = oom.live.total() + oom.needed;
  const Cluster less = with_memory(tight, oom.device, enough - Bytes{1});
  const StepResult again = simulate(p.under(engine, less), p.placement);
  REQUIRE(again.oom);
  CHECK(same_request(*again.oom, oom));
  const Cluster more = with_memory(tight, oom.device, enough);
  const RecordedRun further = record(p.under(engine, more), p.placement);
  CHECK((!further.result.oom || !same_request(*further.result.oom, oom)));
  CHECK(further.result.makespan >= failed.result.makespan);
  CHECK(begins_alike(failed, further));
}

struct Tally {
  std::size_t runs = 0, failed_in_ops = 0, failed_in_transfers = 0, failed_in_weights = 0;
};

void check_problem(const RandomProblem& p, EngineOptions engine, Random& random, Tally& tally) {
  const RecordedRun ample = record(p.under(engine), p.placement);
  const auto wrong = faults(p.under(engine), p.placement, ample);
  CHECK_MESSAGE(wrong.empty(), joined(wrong));
  CHECK(same(ample.result, simulate(p.under(engine), p.placement)));
  CHECK(ample.result.makespan >= lower_bounds(p.graph, p.cluster, p.costs).best());

  const Cluster tight = squeezed(p.cluster, ample.result, random);
  const RecordedRun run = record(p.under(engine, tight), p.placement);
  const auto wrong_when_tight = faults(p.under(engine, tight), p.placement, run);
  CHECK_MESSAGE(wrong_when_tight.empty(), joined(wrong_when_tight));
  bool enough = true;
  for (const DeviceId d : tight.devices())
    enough = enough && tight.device(d).memory >= ample.result.devices[d].peak;
  CHECK(enough == !run.result.oom);
  CHECK(begins_alike(run, ample));
  ++tally.runs;
  if (!run.result.oom) return;
  check_boundary(p, engine, tight, run);
  if (run.result.oom->transfer)
    ++tally.failed_in_transfers;
  else if (run.work.empty())
    ++tally.failed_in_weights;
  else
    ++tally.failed_in_ops;
}

}  // namespace

TEST_SUITE("checker") {
  TEST_CASE("random runs in every mode are what the engine promises, also out of memory") {
    Random random(1);
    Tally tally;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      CAPTURE(seed);
      const RandomProblem p({.ops = 1 + random.below(60), .reach = 1 + random.below(60)},
                            1 + random.below(6), seed);
      for (const EngineOptions& engine : all_engines()) {
        CAPTURE(static_cast<int>(engine.transfers));
        CAPTURE(static_cast<int>(engine.queue));
        CAPTURE(engine.cache_tensors);
        CAPTURE(engine.overlap);
        check_problem(p, engine, random, tally);
      }
    }
    MESSAGE(tally.runs, " ", tally.failed_in_ops, " ", tally.failed_in_transfers, " ",
            tally.failed_in_weights);
  }
}
