#include "tests/checker/schedule_checker.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

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

bool same_work(const Work& a, const Work& b) {
  return a.is_transfer == b.is_transfer && a.op == b.op && a.tensor == b.tensor && a.dst == b.dst &&
         a.start == b.start && a.end == b.end;
}

/// Whether the reports of `failed`, up to its failure, are the first reports of `other`.
bool begins_alike(const RecordedRun& failed, const RecordedRun& other) {
  return failed.work.size() <= other.work.size() &&
         std::equal(failed.work.begin(), failed.work.end(), other.work.begin(), same_work);
}

/// `cluster` with memory of what the run needed at most, or a byte less, or anything down to its
/// weights, or rarely less than these.
Cluster squeezed(const Cluster& cluster, const StepResult& ample, Random& random) {
  Cluster result = cluster;
  const std::uint32_t tightness = random.below(3);
  for (const DeviceId d : cluster.devices()) {
    const Bytes peak = ample.devices[d].peak;
    const Bytes weights = ample.devices[d].at_peak[MemoryKind::weights];
    Bytes limit = peak;
    if (random.below(3) < tightness) limit = weights + random.uniform() * (peak - weights);
    if (random.below(20) == 0) limit = random.uniform() * weights;
    if (random.below(6) == 0 && peak > Bytes{}) limit = peak - Bytes{1};
    result = with_memory(result, d, limit);
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
  std::size_t went_well = 0, failed_in_ops = 0, failed_in_transfers = 0, failed_in_weights = 0;
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
  if (run.result.oom) check_boundary(p, engine, tight, run);
  if (!run.result.oom)
    ++tally.went_well;
  else if (run.result.oom->transfer)
    ++tally.failed_in_transfers;
  else if (run.work.empty())
    ++tally.failed_in_weights;
  else
    ++tally.failed_in_ops;
}

/// Changes a run that is right into one that is not, if it has what that takes.
struct Damage {
  std::string_view what;
  std::string_view fault;  ///< that must be found; if memory ran out, any will do
  std::function<bool(RecordedRun&, const Problem&, Random&)> apply;
};

/// Any of the work for which `suits` holds, or the end.
auto any_work(RecordedRun& run, Random& random, auto suits) {
  const auto n = static_cast<std::uint32_t>(std::ranges::count_if(run.work, suits));
  std::uint32_t left = n == 0 ? 0 : random.below(n);
  return std::ranges::find_if(run.work, [&](const Work& w) { return suits(w) && left-- == 0; });
}

bool is_op(const Work& w) { return !w.is_transfer; }
bool is_transfer(const Work& w) { return w.is_transfer; }

/// A damage to any one piece of work for which `suits` holds.
std::function<bool(RecordedRun&, const Problem&, Random&)> to_any(bool (*suits)(const Work&),
                                                                  auto change) {
  return [=](RecordedRun& run, const Problem& problem, Random& random) {
    const auto w = any_work(run, random, suits);
    if (w == run.work.end()) return false;
    return change(run, w, problem);
  };
}

std::vector<Damage> damages_to_work() {
  const auto lost = [](RecordedRun& run, auto w, const Problem&) {
    run.work.erase(w);
    return true;
  };
  const auto twice = [](RecordedRun& run, auto w, const Problem&) {
    const Work again = *w;
    run.work.push_back(again);
    return true;
  };
  const auto elsewhere = [](RecordedRun&, auto w, const Problem& problem) {
    const DeviceId other{
        static_cast<std::uint32_t>((index(w->dst) + 1) % problem.cluster.num_devices())};
    if (!w->is_transfer) w->src = other;
    return std::exchange(w->dst, other) != other;
  };
  const auto longer = [](RecordedRun&, auto w, const Problem&) {
    w->end += Duration{1};
    return true;
  };
  const auto at_once = [](RecordedRun& run, auto w, const Problem& problem) {
    const auto is_awaited = [&](const Work& other) {
      if (other.is_transfer || other.end == TimePoint{}) return false;
      return w->is_transfer ? other.op == w->op
                            : std::ranges::count(problem.graph.predecessors(w->op), other.op) > 0;
    };
    const bool waited = std::ranges::any_of(run.work, is_awaited);
    w->end -= w->start.time_since_epoch();
    w->start = {};
    return waited;
  };
  const auto late = [](RecordedRun& run, const Problem&, Random&) {
    if (run.work.empty() || run.result.oom) return false;
    run.work.back().start += Duration{1};
    run.work.back().end += Duration{1};
    return true;
  };
  const auto told_in_another_order = [](RecordedRun& run, const Problem&, Random& random) {
    if (run.work.size() < 2) return false;
    const std::size_t i = random.below(static_cast<std::uint32_t>(run.work.size() - 1));
    std::swap(run.work[i], run.work[i + 1]);
    return !same_work(run.work[i], run.work[i + 1]);
  };
  return {
      {"an op lost", "missing: op", to_any(is_op, lost)},
      {"an op twice", "twice: op", to_any(is_op, twice)},
      {"an op on another device", "device: op", to_any(is_op, elsewhere)},
      {"an op longer", "duration: op", to_any(is_op, longer)},
      {"an op at time 0", "before its inputs: op", to_any(is_op, at_once)},
      {"a transfer lost", "missing: transfer", to_any(is_transfer, lost)},
      {"a transfer twice", "too many: tensor", to_any(is_transfer, twice)},
      {"a transfer longer", "duration: transfer", to_any(is_transfer, longer)},
      {"a transfer to its sender or elsewhere", "", to_any(is_transfer, elsewhere)},
      {"a transfer at time 0", "before its producer: transfer", to_any(is_transfer, at_once)},
      {"the last work late", "order: ", late},
      {"two starts told in another order", "", told_in_another_order},
  };
}

std::vector<Damage> damages_to_memory() {
  const auto to_peak = [](auto change) {
    return [=](RecordedRun& run, const Problem&, Random& random) {
      const DeviceId d{random.below(static_cast<std::uint32_t>(run.result.devices.size()))};
      return change(run.result.devices[d]);
    };
  };
  const auto higher = [](DeviceUse& use) {
    use.peak += Bytes{1};
    return true;
  };
  const auto of_other_things = [](DeviceUse& use) {
    std::ranges::rotate(use.at_peak.by_kind, use.at_peak.by_kind.begin() + 1);
    return std::ranges::adjacent_find(use.at_peak.by_kind, std::ranges::not_equal_to{}) !=
           use.at_peak.by_kind.end();
  };
  const auto report_changed = [](RecordedRun& run, const Problem&, Random& random) {
    if (run.memory.empty()) return false;
    run.memory[random.below(static_cast<std::uint32_t>(run.memory.size()))]
        .use[MemoryKind::outputs] += Bytes{1000000};
    return true;
  };
  const auto nothing_told = [](RecordedRun& run, const Problem&, Random&) {
    run.memory.clear();
    return std::ranges::any_of(run.result.devices,
                               [](const DeviceUse& use) { return use.peak > Bytes{}; });
  };
  const auto never_freed = [](RecordedRun& run, const Problem&, Random&) {
    if (run.memory.empty()) return false;
    run.memory.back().use[MemoryKind::copies] += Bytes{1};
    return true;
  };
  return {
      {"a higher peak", "memory: the peak", to_peak(higher)},
      {"a peak of other things", "memory: the peak", to_peak(of_other_things)},
      {"more memory told than there was", "memory: ", report_changed},
      {"no memory told", "not told", nothing_told},
      {"a byte never freed", "memory: ", never_freed},
  };
}

/// To what the run returned, and to the verdict if there is one.
std::vector<Damage> damages_to_result() {
  const auto to_result = [](auto change) {
    return [=](RecordedRun& run, const Problem&, Random&) {
      change(run.result);
      return true;
    };
  };
  const auto to_verdict = [](auto change) {
    return [=](RecordedRun& run, const Problem&, Random&) {
      if (run.result.oom) change(*run.result.oom);
      return run.result.oom.has_value();
    };
  };
  const auto verdict_dropped = [](RecordedRun& run, const Problem&, Random&) {
    return std::exchange(run.result.oom, std::nullopt).has_value();
  };
  const auto verdict_made_up = [](RecordedRun& run, const Problem&, Random&) {
    if (run.result.oom) return false;
    run.result.oom = OutOfMemory{};
    run.result.oom->needed = Bytes{1};
    run.result.oom->at = TimePoint{run.result.makespan};
    return true;
  };
  return {
      {"a longer makespan", "makespan: ", to_result([](auto& r) { r.makespan += Duration{1}; })},
      {"a busier device",
       "busy: ", to_result([](auto& r) { r.devices[DeviceId{0}].busy += Duration{1}; })},
      {"bytes", "counts: ", to_result([](auto& r) { r.moved += Bytes{1}; })},
      {"transfers", "counts: ", to_result([](auto& r) { ++r.transfers; })},
      {"events", "counts: ", to_result([](auto& r) { ++r.events; })},
      {"another op asked", "verdict: ", to_verdict([](auto& o) {
         o.op = OpId{static_cast<std::uint32_t>(index(o.op)) + 1};
       })},
      {"another kind of request", "verdict: ", to_verdict([](auto& o) {
         o.transfer = o.transfer ? std::nullopt : std::optional(TensorId{0});
       })},
      {"another size asked", "verdict: ", to_verdict([](auto& o) { o.needed += Bytes{1}; })},
      {"more was free", "verdict: ", to_verdict([](auto& o) { o.free += Bytes{1}; })},
      {"other things were live",
       "verdict: ", to_verdict([](auto& o) { o.live[MemoryKind::copies] += Bytes{1}; })},
      {"another time", "", to_verdict([](auto& o) { o.at += Duration{1}; })},
      {"verdict dropped", "", verdict_dropped},
      {"verdict made up", "verdict: ", verdict_made_up},
  };
}

/// Damages a good run in each way it can be; the number of damages done.
std::size_t check_damages(const Problem& problem, const Placement& placement,
                          const std::vector<Damage>& damages, Random& random) {
  const RecordedRun good = record(problem, placement);
  REQUIRE(faults(problem, placement, good).empty());
  std::size_t done = 0;
  for (const Damage& damage : damages) {
    CAPTURE(damage.what);
    RecordedRun bad = good;
    if (!damage.apply(bad, problem, random)) continue;
    ++done;
    const auto found = faults(problem, placement, bad);
    const auto is_named = [&](const std::string& f) {
      return good.result.oom || holds(f, damage.fault);
    };
    const bool named = std::ranges::any_of(found, is_named);
    CHECK_MESSAGE(named, joined(found));
  }
  return done;
}

}  // namespace

TEST_SUITE_BEGIN("checker");
TEST_CASE("random runs with staged transfers keep channels exclusive and queues in order") {
  Random random(2);
  std::size_t damaged = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const RandomProblem p({.ops = 1 + random.below(60), .reach = 1 + random.below(60)},
                          1 + random.below(6), seed);
    for (const bool overlap : {true, false}) {
      const Problem problem = p.under({.transfers = Transfers::staged, .overlap = overlap});
      RecordedRun run = record(problem, p.placement);
      const auto found = faults(problem, p.placement, run);
      CHECK_MESSAGE(found.empty(), joined(found));
      // A transfer that left later than it could have.
      const auto late = std::ranges::find_if(run.work, &Work::is_transfer);
      if (late == run.work.end() || late->end - late->start < Duration{4}) continue;
      late->start += Duration{1};
      if (!faults(problem, p.placement, run).empty()) ++damaged;
      late->start -= Duration{1};

      const Cluster tight = squeezed(p.cluster, run.result, random);
      const Problem little{p.graph, tight, p.costs, problem.engine};
      const auto wrong = faults(little, p.placement, record(little, p.placement));
      CHECK_MESSAGE(wrong.empty(), joined(wrong));
    }
  }
  CHECK(damaged > 200);
}

TEST_CASE("random runs in every mode keep the engine's contract, also after out of memory") {
  Random random(1);
  Tally tally;
  const std::uint64_t rounds = thorough() ? 600 : 150;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const RandomProblem p({.ops = 1 + random.below(60), .reach = 1 + random.below(60)},
                          1 + random.below(6), seed);
    for (const EngineOptions& engine : all_engines()) {
      INFO(static_cast<int>(engine.transfers), " ", static_cast<int>(engine.queue), " ",
           engine.cache_tensors, " ", engine.overlap);
      check_problem(p, engine, random, tally);
    }
  }
  // The squeeze is such that every outcome is seen often.
  CHECK(tally.went_well > rounds);
  CHECK(tally.failed_in_ops > rounds);
  CHECK(tally.failed_in_transfers > rounds);
  CHECK(tally.failed_in_weights > rounds);
}

TEST_CASE("random runs with lanes, collectives and shared NICs keep the engine's contract") {
  Random random(5);
  Tally tally;
  std::size_t collectives = 0, slower = 0;
  const std::uint64_t rounds = thorough() ? 600 : 100;
  for (std::uint64_t seed = 0; seed < 2 * rounds; ++seed) {
    CAPTURE(seed);
    const bool in_nodes = seed % 2 == 0;  // which have NICs; else only links
    const std::uint32_t count = (in_nodes ? 2 : 1) + random.below(in_nodes ? 7 : 5);
    const RandomProblem p({.ops = 1 + random.below(60),
                           .reach = 1 + random.below(60),
                           .lanes = 1 + random.below(3),
                           .ranks = random.below(count + 1)},
                          count, seed, in_nodes);
    collectives += p.graph.collectives().size();
    std::vector<Node> nodes;
    IdVector<DeviceId, Device> devices;
    for (const NodeId n : id_range<NodeId>(0, p.cluster.num_nodes())) {
      nodes.push_back(p.cluster.node(n));
      nodes.back().nics = 100;
    }
    for (const DeviceId d : p.cluster.devices()) devices.push_back(p.cluster.device(d));
    const Cluster ample =
        in_nodes ? Cluster::of_nodes(std::move(devices), std::move(nodes)) : p.cluster;
    for (EngineOptions engine : all_engines()) {
      INFO(static_cast<int>(engine.transfers), " ", static_cast<int>(engine.queue));
      if (!in_nodes) engine.overlapped = random.below(2) == 0 ? 1.0 : 1.3;
      if (!in_nodes) engine.disturbed = random.below(2) == 0 ? 1.0 : 1.1;
      check_problem(p, engine, random, tally);
      if (!in_nodes) continue;
      const Duration few = simulate(p.under(engine), p.placement).makespan;
      const Duration many = simulate(p.under(engine, ample), p.placement).makespan;
      if (engine.transfers == Transfers::parallel) CHECK(few == many);
      slower += few > many ? std::size_t{1} : 0;
    }
  }
  CHECK(collectives > rounds);
  CHECK(slower > rounds);  // NICs were scarce often
  CHECK(tally.went_well > rounds);
  CHECK(tally.failed_in_ops > rounds);
  CHECK(tally.failed_in_transfers > rounds);
}

TEST_CASE("the checker rejects every damaged run") {
  Random random(2);
  for (const auto& damages : {damages_to_work(), damages_to_memory(), damages_to_result()}) {
    std::size_t done = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      CAPTURE(seed);
      const RandomProblem p({.ops = 10 + random.below(30)}, 3, seed);
      for (const EngineOptions& engine : all_engines()) {
        const StepResult ample = simulate(p.under(engine), p.placement);
        const Cluster tight = squeezed(p.cluster, ample, random);
        done += check_damages(p.under(engine, tight), p.placement, damages, random);
      }
    }
    CHECK(done > 5000);
  }
}

TEST_CASE("a run in one mode is accepted in another only if there it would be the same") {
  Random random(3);
  std::size_t distinguished = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const RandomProblem p({.ops = 10 + random.below(30)}, 3, seed);
    std::vector<RecordedRun> runs;
    for (const EngineOptions& engine : all_engines())
      runs.push_back(record(p.under(engine), p.placement));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (std::size_t j = 0; j < runs.size(); ++j) {
        const bool alike = begins_alike(runs[i], runs[j]) && begins_alike(runs[j], runs[i]);
        CHECK(faults(p.under(all_engines()[j]), p.placement, runs[i]).empty() == alike);
        distinguished += alike ? 0 : 1;
      }
    }
  }
  CHECK(distinguished > 10000);
}

TEST_CASE("large random runs keep the engine's contract") {
  for (const std::uint32_t reach : {30U, 5000U}) {
    const RandomProblem p({.ops = 5000, .reach = reach}, 16, reach);
    for (const EngineOptions& engine : all_engines()) {
      const RecordedRun run = record(p.under(engine), p.placement);
      const auto wrong = faults(p.under(engine), p.placement, run);
      CHECK_MESSAGE(wrong.empty(), joined(wrong));
    }
  }
}
