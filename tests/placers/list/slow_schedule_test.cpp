#include "placers/list/schedule.h"
#include "sim/engine/channels.h"
#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

constexpr OpId none{~std::uint32_t{0}};
constexpr TimePoint ever = TimePoint::max();

/// list::schedule() as its headers define it, without any data kept from step to step but what has
/// been started: memory and arrivals are recomputed for each op and device.
class SlowSchedule {
 public:
  SlowSchedule(const Problem& p, const IdVector<OpId, OpId>& favourite, Variant variant,
               list::MemoryMargin margin)
      : p_(p),
        g_(p.graph),
        favourite_(favourite),
        fifo_(variant == Variant::pytorch),
        margin_(margin),
        channels_(fifo_ ? Transfers::parallel : p.engine.transfers, p.cluster.num_devices()),
        ops_(g_.num_ops()),
        devices_(p.cluster.num_devices()),
        clocks_(channels_.num_channels()) {
    const Bytes most = margin.reserve ? 2.0 * peak_upper_bound(g_) : peak_upper_bound(g_);
    for (const DeviceId d : p.cluster.devices()) ample_ = ample_ && most <= limit(d);
  }

  /// The devices, the order of starts and the last end, or how many ops started; and whether memory
  /// is ample.
  std::string run() {
    for (const OpId v : g_.ops()) see_if_ready(v);
    while (true) {
      while (start_best()) {
      }
      TimePoint next = ever;
      for (const OpId v : g_.ops()) {
        const Op& op = ops_[v];
        if (op.started && !op.ended) next = std::min(next, op.end);
        if (waits_to_start(v)) {
          for (const DeviceId d : p_.cluster.devices())
            if (const TimePoint at = deliver(v, d); at > now_) next = std::min(next, at);
        }
      }
      if (next == ever) break;
      now_ = next;
      for (const DeviceId d : p_.cluster.devices()) {
        if (const OpId v = devices_[d].last; v != none && !ops_[v].ended && ops_[v].end == now_) {
          ops_[v].ended = true;
          for (const EdgeId e : g_.out_edges(v)) see_if_ready(g_.edge(e).dst);
        }
      }
    }
    if (order_.size() < g_.num_ops()) return fmt::format("stuck after {}", order_.size());
    TimePoint last{};
    std::string text = ample_ ? "ample " : "";
    for (const OpId v : order_) {
      last = std::max(last, ops_[v].end);
      text += fmt::format("{}:{} ", index(v), index(ops_[v].device));
    }
    return text + fmt::format("{}", to_us(last.time_since_epoch()));
  }

  /// The most that the schedule books on a device.
  Bytes used() const {
    Bytes most{};
    for (const DeviceId d : p_.cluster.devices())
      most = std::max(most, weights(d) + devices_[d].peak);
    return most;
  }

 private:
  struct Op {
    bool ready = false, started = false, ended = false;
    std::size_t turn = 0;
    DeviceId device{};
    TimePoint end{};
  };
  struct Device {
    OpId last = none;
    Bytes peak{};
  };
  struct Copy {
    TensorId tensor{};
    DeviceId device{};
    TimePoint arrival{};
    std::vector<OpId> readers{};
  };

  Bytes limit(DeviceId d) const { return margin_.memory_share * p_.cluster.device(d).memory; }
  bool waits_to_start(OpId v) const { return ops_[v].ready && !ops_[v].started; }
  bool running(OpId v) const { return ops_[v].started && !ops_[v].ended; }
  bool idle(DeviceId d) const { return devices_[d].last == none || ops_[devices_[d].last].ended; }
  std::pair<std::size_t, OpId> rank(OpId v) const { return {fifo_ ? ops_[v].turn : 0, v}; }

  void see_if_ready(OpId v) {
    for (const EdgeId e : g_.in_edges(v))
      if (!ops_[g_.edge(e).src].ended) return;
    ops_[v].ready = true;
    ops_[v].turn = turns_++;
  }

  /// The members of the group of `v`, or `v`.
  std::vector<OpId> members(OpId v) const {
    if (g_.op(v).group == no_group) return {v};
    const auto all = g_.members(g_.op(v).group);
    return {all.begin(), all.end()};
  }
  std::optional<DeviceId> home(OpId v) const {
    for (const OpId u : members(v))
      if (ops_[u].started) return ops_[u].device;
    return {};
  }
  bool may_go(OpId v, DeviceId d) const { return home(v).value_or(d) == d; }

  std::vector<EdgeId> inputs(OpId v) const {
    const auto in = g_.in_edges(v);
    std::vector<EdgeId> sorted(in.begin(), in.end());
    std::ranges::sort(sorted, {}, [&](EdgeId e) {
      return std::pair(ops_[g_.edge(e).src].end, g_.edge(e).tensor);
    });
    return sorted;
  }
  const Copy* copy(TensorId t, DeviceId d) const {
    for (const Copy& c : copies_)
      if (p_.engine.cache_tensors && c.tensor == t && c.device == d) return &c;
    return nullptr;
  }

  /// When the inputs of `v` are on `d`; books their transfers in `clocks`, and in `sent`.
  TimePoint deliver(OpId v, DeviceId d, std::vector<TimePoint>& clocks,
                    std::vector<Copy>& sent) const {
    TimePoint ready{};
    for (const EdgeId e : inputs(v)) {
      const TensorId t = g_.edge(e).tensor;
      const Op& producer = ops_[g_.edge(e).src];
      ready = std::max(ready, producer.end);
      if (producer.device == d || g_.instant(t)) continue;
      TimePoint arrival;
      if (const Copy* had = copy(t, d)) {
        ready = std::max(ready, had->arrival);
        continue;
      }
      if (!channels_.limited()) {
        arrival = producer.end + p_.costs.transfer(t, producer.device, d);
      } else {
        TimePoint& sender = clocks[channels_.sending(producer.device)];
        TimePoint& receiver = clocks[channels_.receiving(d)];
        if (channels_.staged()) {
          const Stages s = stages(p_.costs, t, producer.device, d);
          sender = std::max(producer.end + s.latency, sender) + s.out;
          receiver = arrival = std::max(sender, receiver) + s.in;
        } else {
          arrival =
              std::max({producer.end, sender, receiver}) + p_.costs.transfer(t, producer.device, d);
          sender = receiver = arrival;
        }
      }
      ready = std::max(ready, arrival);
      sent.push_back({t, d, arrival});
    }
    return ready;
  }
  TimePoint deliver(OpId v, DeviceId d) const {
    std::vector<TimePoint> clocks = clocks_;
    std::vector<Copy> sent;
    return deliver(v, d, clocks, sent);
  }
  TimePoint start_at(OpId v, DeviceId d) const {
    const OpId last = devices_[d].last;
    return std::max({deliver(v, d), last == none ? TimePoint{} : ops_[last].end, now_});
  }

  Bytes weights(DeviceId d) const {
    Bytes sum{};
    for (const OpId v : g_.ops())
      if (home(v) == d) sum += g_.op(v).persistent;
    return sum;
  }
  Bytes workspace(DeviceId d) const {
    Bytes most{};
    for (const OpId v : g_.ops())
      if (ops_[v].started && ops_[v].device == d && (margin_.keep_all || running(v)))
        most = std::max(most, g_.op(v).temporary);
    return most;
  }
  Bytes live(DeviceId d) const {
    Bytes sum = workspace(d);
    for (const OpId v : g_.ops()) {
      if (!ops_[v].started || ops_[v].device != d) continue;
      for (const TensorId t : g_.outputs(v)) {
        bool held = margin_.keep_all || running(v);
        for (const EdgeId e : g_.readers(t)) held = held || !ops_[g_.edge(e).dst].ended;
        if (held) sum += g_.tensor(t).held();
      }
    }
    for (const Copy& c : copies_) {
      const bool held =
          margin_.keep_all || std::ranges::any_of(c.readers, [&](OpId v) { return running(v); });
      if (c.device == d && held) sum += g_.tensor(c.tensor).copied();
    }
    return sum;
  }
  Bytes own_need(OpId v) const { return output_bytes(g_, v) + g_.op(v).temporary; }
  /// What the most demanding member of the group of `v` needs.
  Bytes most(OpId v, bool with_inputs) const {
    Bytes found{};
    for (const OpId u : members(v)) {
      Bytes need = own_need(u);
      for (const EdgeId e : g_.in_edges(u))
        if (with_inputs) need += g_.tensor(g_.edge(e).tensor).copied();
      found = std::max(found, need);
    }
    return found;
  }
  /// Kept free for the groups that are placed on `d`: what members need that have not started.
  Bytes reserved(DeviceId d, OpId except) const {
    Bytes sum{};
    for (const GroupId g : g_.groups()) {
      const OpId first = g_.members(g)[0];
      if (home(first) != d) continue;
      bool waiting = false;
      for (const OpId u : g_.members(g)) {
        if (ops_[u].started) continue;
        waiting = true;
        if (margin_.keep_all && u != except) sum += output_bytes(g_, u);
      }
      const bool own = except != none && g_.op(except).group == g;
      if (!margin_.keep_all && margin_.reserve && waiting && !own) sum += most(first, false);
    }
    return sum;
  }
  Bytes largest(DeviceId d) const {
    Bytes found{};
    for (const OpId v : g_.ops())
      if (g_.op(v).group != no_group && home(v) == d) found = std::max(found, most(v, true));
    return found;
  }
  bool has_room(OpId v, DeviceId d) const {
    if (ample_) return true;
    const Bytes temporary = g_.op(v).temporary;
    const Bytes more_workspace =
        margin_.keep_all ? std::max(Bytes{}, temporary - workspace(d)) : temporary;
    Bytes need = output_bytes(g_, v) + more_workspace;
    for (const EdgeId e : g_.in_edges(v)) {
      const TensorId t = g_.edge(e).tensor;
      if (ops_[g_.edge(e).src].device == d || g_.instant(t)) continue;
      const Copy* had = copy(t, d);
      if (had == nullptr || (!margin_.keep_all && std::ranges::none_of(had->readers, [&](OpId u) {
            return running(u);
          })))
        need += g_.tensor(t).copied();
    }
    Bytes spare = largest(d), more_weights{};
    if (!home(v)) {
      Bytes outputs{};
      for (const OpId u : members(v)) {
        more_weights += g_.op(u).persistent;
        outputs += output_bytes(g_, u);
      }
      if (g_.op(v).group != no_group) {
        need = std::max(need, margin_.keep_all ? outputs + more_workspace : most(v, false));
        spare = std::max(spare, most(v, true));
      }
    } else {
      spare = Bytes{};
    }
    need += reserved(d, v) + margin_.spare * spare;
    return weights(d) + more_weights + std::max(devices_[d].peak, live(d) + need) <= limit(d);
  }

  OpId awaited(DeviceId d) const {
    const OpId last = devices_[d].last;
    const OpId child = favourite_.empty() || last == none ? none : favourite_[last];
    if (child == none || !waits_to_start(child) || !may_go(child, d) || !has_room(child, d))
      return none;
    const TimePoint here = start_at(child, d);
    for (const DeviceId other : p_.cluster.devices())
      if (other != d && may_go(child, other) && start_at(child, other) < here &&
          has_room(child, other))
        return none;
    return child;
  }
  /// What the idle device `d`, which waits for `child`, starts now.
  OpId instead(DeviceId d, OpId child) const {
    std::tuple best{ever, std::pair<std::size_t, OpId>{}, none};
    const bool any_running = std::ranges::any_of(g_.ops(), [&](OpId v) { return running(v); });
    for (const OpId v : g_.ops()) {
      if (!waits_to_start(v) || !may_go(v, d) || !has_room(v, d)) continue;
      if (ample_ && any_running && !home(v)) continue;
      TimePoint at = start_at(v, d);
      for (const DeviceId other : p_.cluster.devices())
        if (!home(v) && has_room(v, other)) at = std::max(at, start_at(v, other));
      best = std::min(best, std::tuple(at, rank(v), v));
    }
    if (std::get<0>(best) <= now_) return std::get<2>(best);
    return start_at(child, d) <= now_ ? child : none;
  }

  bool start_best() {
    std::optional<std::tuple<std::pair<std::size_t, OpId>, Duration, DeviceId>> best;
    for (const DeviceId d : p_.cluster.devices()) {
      if (!idle(d)) continue;
      const OpId child = awaited(d);
      const OpId chosen = child == none ? none : instead(d, child);
      for (const OpId v : g_.ops()) {
        const bool could = child == none ? waits_to_start(v) && may_go(v, d) &&
                                               deliver(v, d) <= now_ && has_room(v, d)
                                         : v == chosen;
        const std::tuple offer(rank(v), p_.costs.compute(v, d), d);
        if (could && (!best || offer < *best)) best = offer;
      }
    }
    if (best) start(std::get<0>(*best).second, std::get<2>(*best));
    return best.has_value();
  }

  void start(OpId v, DeviceId d) {
    std::vector<Copy> sent;
    deliver(v, d, clocks_, sent);
    copies_.insert(copies_.end(), sent.begin(), sent.end());
    for (const EdgeId e : g_.in_edges(v))
      for (Copy& c : copies_) {
        const bool own = p_.engine.cache_tensors || c.readers.empty();
        if (own && c.device == d && c.tensor == g_.edge(e).tensor) c.readers.push_back(v);
      }
    Op& op = ops_[v];
    op.started = true;
    op.device = d;
    op.end = now_ + p_.costs.compute(v, d);
    devices_[d].last = v;
    devices_[d].peak = std::max(devices_[d].peak, live(d));
    order_.push_back(v);
  }

  const Problem& p_;
  const OpGraph& g_;
  const IdVector<OpId, OpId>& favourite_;
  const bool fifo_;
  const list::MemoryMargin margin_;
  const ChannelMap channels_;
  bool ample_ = true;
  IdVector<OpId, Op> ops_;
  IdVector<DeviceId, Device> devices_;
  std::vector<TimePoint> clocks_;
  std::vector<Copy> copies_;
  std::vector<OpId> order_;
  std::size_t turns_ = 0;
  TimePoint now_{};
};

/// The same costs, but without the information that devices or links are equal.
class SecretCosts final : public CostModel {
 public:
  explicit SecretCosts(const CostModel& costs) : costs_(costs) {}
  Duration collective(const Collective&, std::span<const DeviceId>) const override { return {}; }
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

/// As SlowSchedule::run().
std::string text_of(const list::Schedule& found, const OpGraph& graph) {
  if (!found.placement) {
    std::size_t started = 0;
    std::sscanf(found.stuck.c_str(), "stuck with %zu", &started);
    return fmt::format("stuck after {}", started);
  }
  std::vector<OpId> order(graph.ops().begin(), graph.ops().end());
  std::ranges::sort(order, std::greater{}, [&](OpId v) { return found.placement->priority[v]; });
  std::string text = found.memory_ample ? "ample " : "";
  for (const OpId v : order)
    text += fmt::format("{}:{} ", index(v), index(found.placement->device[v]));
  return text + fmt::format("{}", found.placement->facts.at("planned_step_us"));
}

}  // namespace

TEST_SUITE_BEGIN("list scheduler");
TEST_CASE(
    "random problems: the schedule is that of its definition, whether devices are known to be "
    "equal or not") {
  std::size_t stuck = 0;
  constexpr list::MemoryMargin margins[] = {{},
                                            {.spare = 1},
                                            {.memory_share = 0.9, .spare = 2},
                                            {.keep_all = true},
                                            {.reserve = true},
                                            {.keep_all = true, .reserve = true}};
  for (std::uint64_t seed = 0; seed < 1400; ++seed) {
    Random random(seed);
    const bool ample = seed % 2 == 1;
    const RandomProblem made({.ops = 2 + random.below(random.below(2) == 0 ? 12 : 30),
                              .degree = 3,
                              .reach = 5 + random.below(25)},
                             (ample ? 4 : 1) + random.below(6), seed);
    constexpr Transfers modes[] = {Transfers::sequential, Transfers::parallel, Transfers::duplex,
                                   Transfers::shared, Transfers::staged};
    const EngineOptions engine{.transfers = modes[random.below(5)],
                               .cache_tensors = random.below(2) == 0};
    IdVector<OpId, OpId> favourite;
    const bool favours = random.below(2) == 0;
    for (const OpId v : made.graph.ops()) {
      const auto out = made.graph.out_edges(v);
      if (!favours) continue;
      const auto which = random.below(static_cast<std::uint32_t>(out.size()) + 1);
      favourite.push_back(which < out.size() ? made.graph.edge(out[which]).dst : none);
    }
    const Variant variant = random.below(4) == 0 ? Variant::pytorch : Variant::standard;
    const list::MemoryMargin margin = margins[random.below(6)];
    // What all ops take together, or a byte less; or a part, then exactly what was used, and a
    // byte less.
    const Bytes all = (margin.reserve ? 2.0 : 1.0) * peak_upper_bound(made.graph);
    const std::uint32_t part = random.below(20);
    Bytes memory = ample ? all - Bytes{part / 19} : (0.1 + 0.02 * part) * all;
    for (const bool first : {true, false, false}) {
      INFO("seed ", seed, ", memory ", memory.count);
      Cluster cluster = made.cluster;
      for (const DeviceId d : cluster.devices()) cluster.set_memory(d, memory);
      const Problem problem{made.graph, cluster, made.costs, engine};
      SlowSchedule slow(problem, favourite, variant, margin);
      const std::string expected = slow.run();
      const SecretCosts secret(made.costs);
      for (const CostModel* costs :
           {static_cast<const CostModel*>(&made.costs), static_cast<const CostModel*>(&secret)}) {
        const Problem known{made.graph, cluster, *costs, engine};
        CHECK(text_of(list::schedule(known, favourite, variant, margin), made.graph) == expected);
      }
      stuck += expected.starts_with("stuck");
      if (ample) break;
      memory = first ? slow.used() : memory - 1_B;
    }
  }
  CHECK(stuck > 300);
  CHECK(stuck < 1200);
}
