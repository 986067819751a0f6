#include "sim/pipeline/pipeline.h"
#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

using namespace baechi::pipeline;

namespace {

// A second, simple simulator of pipelines: the reference for sim/pipeline. It uses passes and their
// times, without ops, graphs or the engine.

/// A chain of chunks. All times are whole nanoseconds; W takes 0 in chunks without W.
struct StrictPipeline {
  struct Chunk {
    Duration forward{}, backward{}, weights{}, update{};
    Duration sends_forward{}, sends_backward{};  ///< to the next, and to the previous chunk
    Duration sum{};  ///< gradient reduction over replicas, or between its two devices
  };
  std::vector<Chunk> chunks;
  std::vector<std::vector<pipeline::Pass>> passes;  ///< [stages], in order
  std::vector<std::vector<std::size_t>> homes;      ///< [stages], the chunks whose gradients it has
  std::size_t ahead = 0;  ///< most micro-batches by which F of a chunk leads the next chunk
  bool split = false;     ///< W is a separate pass; else it follows B, which sends before W
  bool pairs = false;     ///< two stages hold each chunk: its reduction waits for both
  bool sums = false;      ///< reduction over replicas, by chunk, the last chunk of a stage first
  Duration launch{};      ///< per op, by the stage's host, which does not wait for the device
};

/// The rules:
/// - A stage runs one pass at a time, in order, and a pass begins when its inputs have arrived: F
///   needs the F of the previous chunk (and, with `ahead`, the F of the next chunk that many
///   micro-batches earlier), B its own F and the B of the next chunk, W its own B.
/// - Transfers take their time without contention.
/// - A reduction starts when the last gradient of the chunk on the stage is computed and the
///   stage's previous reduction has ended. It overlaps with passes.
/// - Updates of a stage run after its passes and reductions, one after the other.
/// - With `launch`, no op starts before the host has launched it; the host launches all ops of a
///   stage one after the other, in the order in which they run.
/// Returns the end of each op, by name: f, r (recomputed F), b, w or u, the chunk, and the
/// micro-batch: "b2#0".
class Strict {
 public:
  explicit Strict(const StrictPipeline& p)
      : p_(p),
        next_(p.passes.size(), 0),
        free_(p.passes.size()),
        host_(p.passes.size()),
        lane_(p.passes.size()) {}

  std::map<std::string, Duration> run() {
    // Passes wait for passes only, so each is timed once its inputs are; then reductions.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < p_.passes.size(); ++s)
        while (next_[s] < p_.passes[s].size() && step(s)) moved = true;
    }
    return ends_;
  }

 private:
  static std::string name(char kind, std::size_t chunk, std::size_t micro_batch) {
    return kind + std::to_string(chunk) + "#" + std::to_string(micro_batch);
  }
  std::optional<Duration> end_of(char kind, std::size_t chunk, std::size_t micro_batch) const {
    const auto it = ends_.find(name(kind, chunk, micro_batch));
    return it == ends_.end() ? std::nullopt : std::optional(it->second);
  }

  /// Runs the next pass of stage `s` if its inputs have arrived.
  bool step(std::size_t s) {
    const Pass pass = p_.passes[s][next_[s]];
    if (pass.kind == PassKind::update) return update(s);
    const auto ready = inputs(s, pass);
    if (!ready) return false;
    ++next_[s];
    const auto& chunk = p_.chunks[pass.chunk];
    free_[s] = std::max(free_[s], *ready);
    if (pass.kind == PassKind::forward) run_op(s, 'f', pass, chunk.forward);
    if (pass.kind == PassKind::recompute) run_op(s, 'r', pass, chunk.forward);
    if (pass.kind == PassKind::backward) run_op(s, 'b', pass, chunk.backward);
    const bool weights =
        pass.kind == PassKind::weights ||
        (pass.kind == PassKind::backward && !p_.split && chunk.weights > Duration{});
    if (weights) run_op(s, 'w', pass, chunk.weights);
    if (weights || (pass.kind == PassKind::backward && chunk.weights == Duration{}))
      made_[{s, pass.chunk}] = free_[s];
    return true;
  }

  std::optional<Duration> inputs(std::size_t s, const Pass& pass) const {
    const std::size_t c = pass.chunk, i = pass.micro_batch;
    const auto sent = [&](char kind, std::size_t from, Duration takes) {
      const auto end = end_of(kind, from, i);
      const bool here = std::ranges::find(p_.passes[s], from, [&](const Pass& p) {
                          return p.micro_batch == i ? p.chunk : p_.chunks.size();
                        }) != p_.passes[s].end();
      return end ? std::optional(*end + (here ? Duration{} : takes)) : std::nullopt;
    };
    if (pass.kind == PassKind::weights) return end_of('b', c, i);
    if (pass.kind == PassKind::recompute) return end_of('f', c, i);
    if (pass.kind == PassKind::forward) {
      const auto there = c == 0 ? Duration{} : sent('f', c - 1, p_.chunks[c - 1].sends_forward);
      if (p_.ahead == 0 || c + 1 == p_.chunks.size() || i < p_.ahead) return there;
      const auto done = end_of('f', c + 1, i - p_.ahead);
      return there && done ? std::optional(std::max(*there, *done)) : std::nullopt;
    }
    const auto own = end_of('f', c, i);
    if (!own || c + 1 == p_.chunks.size()) return own;
    const auto behind = sent('b', c + 1, p_.chunks[c + 1].sends_backward);
    return behind ? std::optional(std::max(*own, *behind)) : std::nullopt;
  }

  void run_op(std::size_t s, char kind, const Pass& pass, Duration takes) {
    host_[s] += p_.launch;
    free_[s] = std::max(free_[s], host_[s]) + takes;
    ends_[name(kind, pass.chunk, pass.micro_batch)] = free_[s];
  }

  /// Consecutive updates of a stage: their reductions, then their ops.
  bool update(std::size_t s) {
    std::map<std::size_t, Pass> together;  // by chunk
    std::size_t k = next_[s];
    for (; k < p_.passes[s].size() && p_.passes[s][k].kind == PassKind::update &&
           !together.contains(p_.passes[s][k].chunk);
         ++k)
      together.emplace(p_.passes[s][k].chunk, p_.passes[s][k]);
    Duration ready = free_[s];
    if (p_.sums)
      for (auto it = together.rbegin(); it != together.rend(); ++it) {
        lane_[s] = std::max(lane_[s], made_.at({s, it->first})) + p_.chunks[it->first].sum;
        ready = std::max(ready, lane_[s]);
      }
    if (p_.pairs) {
      const auto sums = sums_of_pair(s);
      if (!sums) return false;
      // An update waits for the reduction of its own chunk; ready ones run first, ties by op.
      std::vector<std::pair<Duration, std::size_t>> order;
      for (const auto& [chunk, pass] : together)
        order.emplace_back(std::max(free_[s], sums->at(chunk)), chunk);
      return run_updates(s, k, together, order);
    }
    std::vector<std::pair<Duration, std::size_t>> order;
    for (const auto& [chunk, pass] : together) order.emplace_back(ready, chunk);
    return run_updates(s, k, together, order);
  }

  bool run_updates(std::size_t s, std::size_t until, const std::map<std::size_t, Pass>& together,
                   std::vector<std::pair<Duration, std::size_t>> order) {
    for (auto& [ready, chunk] : order) ready = std::max(ready, host_[s] += p_.launch);
    std::ranges::sort(order);
    for (const auto& [ready, chunk] : order) {
      free_[s] = std::max(free_[s], ready) + p_.chunks[chunk].update;
      ends_[name('u', chunk, together.at(chunk).micro_batch)] = free_[s];
    }
    next_[s] = until;
    return true;
  }

  /// The ends of the two reductions of a stage and its opposite, which are serial: first the one
  /// whose gradients are complete first; ties: the first chunk. Nothing before both stages have run
  /// their passes.
  std::optional<std::map<std::size_t, Duration>> sums_of_pair(std::size_t s) const {
    const std::size_t other = p_.passes.size() - 1 - s;
    std::vector<std::pair<Duration, std::size_t>> arrivals;
    for (const std::size_t chunk : p_.homes[s]) {
      Duration there{};
      for (const std::size_t stage : {s, other}) {
        const Pass* at =
            next_[stage] < p_.passes[stage].size() ? &p_.passes[stage][next_[stage]] : nullptr;
        if (at != nullptr && at->kind != PassKind::update) return std::nullopt;
        there = std::max(there, made_.at({stage, chunk}));
      }
      arrivals.emplace_back(there, chunk);
    }
    std::ranges::sort(arrivals);
    std::map<std::size_t, Duration> ends;
    Duration lane{};
    for (const auto& [there, chunk] : arrivals) {
      lane = std::max(lane, there) + p_.chunks[chunk].sum;
      ends[chunk] = lane;
    }
    return ends;
  }

  const StrictPipeline& p_;
  std::vector<std::size_t> next_;  // [stages]
  std::vector<Duration> free_, host_, lane_;
  std::map<std::pair<std::size_t, std::size_t>, Duration> made_;  // stage, chunk: last gradient
  std::map<std::string, Duration> ends_;
};

std::map<std::string, Duration> strict_ends(const StrictPipeline& pipeline) {
  return Strict(pipeline).run();
}

/// A random pipeline of a schedule, as the product and as the strict simulator see it.
struct Case {
  StrictPipeline strict;
  OpGraph graph;
  IdVector<OpId, DeviceId> device;
  std::size_t stages = 1, micro_batches = 1;
  bool recompute = false;
};

/// Names "f0", "b0", "w0", "u0", one of each for a chunk. What chunks send takes 1 ns for each
/// byte, and so does a sum over two replicas, or between two devices: 2 x half of it.
OpGraph chain(const StrictPipeline& p) {
  OpGraphBuilder b;
  const std::size_t n = p.chunks.size();
  const auto bytes = [](Duration time) { return Bytes{time.count()}; };
  const auto name = [](char kind, std::size_t c) { return kind + std::to_string(c); };
  std::vector<TensorId> sent, kept, gradient(n);
  for (std::size_t c = 0; c < n; ++c) {
    const OpId f = b.add_op({.name = name('f', c), .compute = p.chunks[c].forward});
    if (c > 0) b.add_edge(sent.back(), f);
    sent.push_back(b.add_tensor(f, bytes(p.chunks[c].sends_forward)));
    kept.push_back(b.add_tensor(f, 0_B));
  }
  std::optional<TensorId> behind;
  for (std::size_t c = n; c-- > 0;) {
    const StrictPipeline::Chunk& chunk = p.chunks[c];
    const auto add = [&](char kind, Duration time) {
      const OpId v = b.add_op({.name = name(kind, c), .compute = time, .phase = Phase::backward});
      b.add_edge(kept[c], v);
      if (behind) b.add_edge(*behind, v);
      return v;
    };
    const OpId v = add('b', chunk.backward);
    const TensorId out = b.add_tensor(v, bytes(chunk.sends_backward));
    OpId made = v;
    if (chunk.weights > Duration{}) {
      made = add('w', chunk.weights);
      if (c == 0) b.add_edge(out, made);  // which makes b0 an op that others wait for
    }
    gradient[c] = b.add_tensor(made, bytes(chunk.sum));
    behind = out;
  }
  for (std::size_t c = 0; c < n; ++c)
    b.add_edge(
        gradient[c],
        b.add_op({.name = name('u', c), .compute = p.chunks[c].update, .phase = Phase::update}));
  return std::move(b).build();
}

Case random_case(const ScheduleEntry& entry, Random& random) {
  Case made;
  const auto time = [&](std::uint32_t most) { return Duration{random.below(most)}; };
  made.stages = 1 + random.below(5);
  made.micro_batches = 1 + random.below(9);
  if (entry.layout == Layout::two_way) made.stages += made.stages % 2;
  if (entry.layout == Layout::loop) made.stages += made.stages == 1 ? 1 : 0;
  if (entry.layout == Layout::two_way) made.micro_batches = 2 * (made.stages + random.below(3));
  if (entry.layout == Layout::loop) made.micro_batches = made.stages * (1 + random.below(3));
  const std::size_t laps = entry.layout == Layout::loop  ? 2 + random.below(2)
                           : entry.layout == Layout::vee ? 2
                                                         : 1;
  StrictPipeline& p = made.strict;
  p.split = entry.splits;
  const bool weights = p.split || random.below(2) == 0;
  // Short ones: ties. With two sums on one pair of devices, ties go by ids that no rule names.
  const std::uint32_t most = entry.layout == Layout::two_way ? 50'000
                             : random.below(3) == 0          ? 3
                                                             : 50;
  p.chunks.resize(laps * made.stages);
  for (StrictPipeline::Chunk& c : p.chunks)
    c = {.forward = 1ns + time(most),
         .backward = 1ns + time(most),
         .weights = weights ? 1ns + time(most) : 0ns,
         .update = 1ns + time(most),
         .sends_forward = time(most / 2 + 1),
         .sends_backward = time(most / 2 + 1),
         .sum = 2 * (1ns + time(most))};
  Shape shape{.stages = made.stages, .laps = laps, .micro_batches = made.micro_batches};
  const auto home = [&](std::size_t c) { return home_stage(entry.layout, c, made.stages); };
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    const bool to = c + 1 < p.chunks.size() && home(c + 1) != home(c);
    const bool back = c > 0 && home(c - 1) != home(c);
    shape.times.push_back({.forward = p.chunks[c].forward,
                           .backward = p.chunks[c].backward,
                           .weights = p.chunks[c].weights,
                           .sends_forward = to ? p.chunks[c].sends_forward : 0ns,
                           .sends_backward = back ? p.chunks[c].sends_backward : 0ns});
  }
  Schedule schedule = entry.make(shape);
  made.recompute = random.below(4) == 0;
  if (made.recompute) schedule = with_recompute(std::move(schedule));
  p.passes = schedule.passes;
  p.ahead = schedule.ahead;
  p.homes.resize(made.stages);
  for (std::size_t c = 0; c < p.chunks.size(); ++c) {
    p.homes[home(c)].push_back(c);
    if (entry.layout == Layout::two_way) p.homes[made.stages - 1 - home(c)].push_back(c);
  }
  p.pairs = entry.layout == Layout::two_way;
  const std::uint32_t with = random.below(3);
  p.sums = with == 1 && !p.pairs;
  if (with == 2) p.launch = time(most);
  made.graph = chain(p);
  for (const OpId v : made.graph.ops())
    made.device.push_back(static_cast<DeviceId>(
        home(static_cast<std::size_t>(std::stoul(std::string(made.graph.name(v)).substr(1))))));
  return made;
}

/// The ends of ops by the names that strict_ends() has.
class Ends final : public StepObserver {
 public:
  explicit Ends(const OpGraph& graph) : graph_(graph) {}
  void on_op(OpId v, DeviceId /*d*/, TimePoint /*start*/, TimePoint end) override {
    std::string name(graph_.name(v));
    if (name.find('/') != std::string::npos || name.starts_with("order")) return;
    if (const std::size_t again = name.find(" again"); again != std::string::npos)
      name = "r" + name.substr(1, again - 1);
    ends[name] = end.time_since_epoch();
  }
  std::map<std::string, Duration> ends;

 private:
  const OpGraph& graph_;
};

std::map<std::string, Duration> simulated(const Case& made, std::string_view schedule) {
  PlacedStep step{made.graph, made.device};
  if (made.strict.sums)
    step =
        transform("data_parallel", {{"replicas", "2"}, {"bucket", "1 B"}, {"first_bucket", "1 B"}})
            ->after_placing(step.graph, step.device);
  if (made.strict.launch > 0ns)
    step = transform("host", {{"launch", fmt::format("{} ns", made.strict.launch.count())}})
               ->after_placing(step.graph, step.device);
  const Cluster cluster = gpus(made.stages);
  const ProfiledCosts costs(step.graph, cluster);
  const Problem problem{step.graph, cluster, costs, {.transfers = Transfers::parallel}};
  const Placement placement{.device = step.device};
  const PipelineOptions options{.schedule = std::string(schedule),
                                .micro_batches = made.micro_batches,
                                .recompute = made.recompute};
  const Unrolled unrolled = unroll(problem, placement, options);
  Ends ends(unrolled.graph);
  StepObserver* const observers[] = {&ends};
  CHECK_FALSE(simulate_pipeline(problem, placement, options, unrolled, observers).oom);
  return ends.ends;
}

}  // namespace

TEST_SUITE_BEGIN("checker");
TEST_CASE("the strict simulator, by hand: two stages, three micro-batches") {
  //   stage 0: F 1, B 2, sum 4, U 1; stage 1: F 3, B 3, sum 2, U 1; 1 ns to cross
  //   stage 0: F0 0-1, F1 1-2, B0 9-11, F2 11-12, B1 15-17, B2 21-23; sum 23-27, U 27-28
  //   stage 1: F0 2-5, B0 5-8, F1 8-11, B1 11-14, F2 14-17, B2 17-20; sum 20-22, U 22-23
  StrictPipeline p;
  p.chunks = {{.forward = 1ns, .backward = 2ns, .update = 1ns, .sends_forward = 1ns, .sum = 4ns},
              {.forward = 3ns, .backward = 3ns, .update = 1ns, .sends_backward = 1ns, .sum = 2ns}};
  p.passes = find_schedule("1f1b_flush")->make({.stages = 2, .micro_batches = 3}).passes;
  p.sums = true;
  const auto ends = strict_ends(p);
  CHECK(ends.at("b0#0") == 11ns);
  CHECK(ends.at("b1#2") == 20ns);
  CHECK(ends.at("b0#2") == 23ns);
  CHECK(ends.at("u0#2") == 28ns);
  CHECK(ends.at("u1#2") == 23ns);
}

TEST_CASE("zb_v's order is that of the strict simulator: short transfers cost what they take") {
  // F = B = W = 10 us a chunk, two chunks a stage, m = 3p: a stage works m x 60 us, and idles
  // (p - 1) x 10 us with free transfers; zb_h1, of chunks twice as long, twice that.
  const auto idle = [](const char* name, std::size_t p, Duration pass, Duration sends) {
    const ScheduleEntry& entry = *find_schedule(name);
    const bool vee = entry.layout == Layout::vee;
    StrictPipeline strict;
    strict.split = true;
    Shape shape{.stages = p, .laps = vee ? 2U : 1U, .micro_batches = 3 * p};
    for (std::size_t c = 0; c < p * shape.laps; ++c) {
      const bool to = c + 1 < p * shape.laps && !(vee && c + 1 == p), back = c > 0 && c != p;
      shape.times.push_back({pass, pass, pass, to ? sends : 0ns, back ? sends : 0ns});
      strict.chunks.push_back({pass, pass, pass, 0ns, to ? sends : 0ns, back ? sends : 0ns});
    }
    strict.passes = entry.make(shape).passes;
    Duration last{};
    for (const auto& [op, end] : strict_ends(strict)) last = std::max(last, end);
    return last - static_cast<std::int64_t>(3 * p * 3 * shape.laps) * pass;
  };
  for (const std::size_t p : {4U, 8U}) {
    CAPTURE(p);
    const auto fill = static_cast<std::int64_t>(p - 1) * 10us;
    CHECK(idle("zb_v", p, 10us, 0ns) == fill);
    for (const Duration sends : {1ns, 10ns, 100ns, 1000ns, 2000ns}) {
      CAPTURE(sends.count());
      // A transfer is on the longest chain at most 4p times while the pipeline fills and drains,
      // and about twice in a round of p micro-batches.
      CHECK(idle("zb_v", p, 10us, sends) <= fill + 8 * static_cast<std::int64_t>(p) * sends);
      CHECK(idle("zb_v", p, 10us, sends) < idle("zb_h1", p, 20us, sends));
    }
  }
}

TEST_CASE("random pipelines of every schedule run as in the strict simulator, to the ns") {
  std::size_t cases = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const ScheduleEntry& entry : schedules()) {
      Random random(seed);
      const Case made = random_case(entry, random);
      INFO(seed, " ", entry.name);
      const auto strict = strict_ends(made.strict), found = simulated(made, entry.name);
      CHECK(found.size() == strict.size());
      for (const auto& [op, end] : strict) {
        CAPTURE(op);
        REQUIRE(found.contains(op));
        REQUIRE(found.at(op) == end);
      }
      ++cases;
    }
  }
  CHECK(cases > 400);
}
