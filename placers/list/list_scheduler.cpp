#include "placers/list/list_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "placers/list/uniform_devices.h"
#include "placers/list/queues.h"
#include "placers/list/booked_memory.h"
#include "placers/list/booked_transfers.h"
#include "sim/engine/device_set.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"

namespace baechi {
namespace {

using namespace list_queues;

/// One attempt. Ids break all ties, so nothing depends on the order of heaps or lists.
class ListSchedule {
 public:
  ListSchedule(const Problem& p, const ListSchedulerOptions& options, const Caution& caution)
      : graph_(p.graph),
        cluster_(p.cluster),
        costs_(p.costs),
        options_(options),
        alike_(
            std::ranges::all_of(p.cluster.devices(),
                                [&](DeviceId d) { return p.costs.compute_alike(DeviceId{0}, d); })),
        transfers_(p,
                   options.variant == Variant::pytorch ? Transfers::parallel : p.engine.transfers),
        memory_(p, transfers_, caution),
        devices_(p.cluster.num_devices()),
        ops_(graph_.num_ops()),
        asked_(p.cluster.num_devices()),
        hopeful_(p.cluster.num_devices()) {
    order_.reserve(graph_.num_ops());
    for (const DeviceId d : cluster_.devices()) last_free_first_.push_back(d);
    if (!memory_.ample() || !alike_ || !transfers_.links_alike()) return;
    elsewhere_.emplace(graph_.num_ops(), p.cluster.num_devices(), transfers_);
    for (const DeviceId d : cluster_.devices()) elsewhere_->set_idle(d);
  }

  bool ample() const { return memory_.ample(); }

  /// The placement, or nothing: then stuck() says why.
  std::optional<Placement> run() {
    for (const OpId v : graph_.ops()) {
      ops_[v].unmet = static_cast<std::uint32_t>(graph_.in_edges(v).size());
      if (ops_[v].unmet == 0) make_ready(v);
    }
    while (true) {
      while (elsewhere_ ? start_first() : start_one()) {
      }
      const TimePoint next = ends_.empty() ? ask_again_ : std::min(ask_again_, ends_.top().first);
      if (next == never && !ask_blocked_again()) break;
      if (next != never) now_ = next;
      for (; !ends_.empty() && ends_.top().first <= now_; ends_.pop()) end_op(ends_.top().second);
    }
    if (order_.size() < graph_.num_ops()) return std::nullopt;
    return placement();
  }

  std::string stuck() const {
    for (const OpId v : graph_.ops()) {
      if (ops_[v].home == started || ops_[v].unmet > 0) continue;
      const bool pinned = ops_[v].home != anywhere;
      DeviceId roomiest = pinned ? ops_[v].home : DeviceId{0};
      for (const DeviceId d : cluster_.devices()) {
        if (!pinned && memory_.left(d) > memory_.left(roomiest)) roomiest = d;
      }
      return fmt::format(
          "stuck with {} of {} ops placed: op '{}' needs {} of weights and {} while it runs; {}{} "
          "has {} left beside its peak",
          order_.size(), graph_.num_ops(), graph_.name(v), to_text(memory_.weights_to_place(v)),
          to_text(memory_.own_need(v)), cluster_.device(roomiest).name,
          pinned ? ", where its group is," : ", the roomiest,", to_text(memory_.left(roomiest)));
    }
    return "stuck";
  }

 private:
  // So few devices that to ask each about each op is the fastest: where elsewhere_ could be asked
  // (at 2 devices 1652 instructions per op, not 2192), and where not.
  static constexpr std::size_t few = 3, few_one_by_one = 8;

  /// What a device would do now, or when to ask again.
  struct Choice {
    Ranked op = nothing;
    TimePoint ask_at = never;
  };

  Placement placement() const {
    Placement result{.device = IdVector<OpId, DeviceId>(graph_.num_ops()),
                     .priority = IdVector<OpId, std::int32_t>(graph_.num_ops())};
    TimePoint last{};  // not now_: what is asked again last may be an op long scheduled elsewhere
    for (const OpId v : graph_.ops()) {
      result.device[v] = transfers_.device(v);
      last = std::max(last, transfers_.end(v));
    }
    auto priority = static_cast<std::int32_t>(order_.size());
    for (const OpId v : order_) result.priority[v] = priority--;
    result.facts["planned_step_us"] = to_us(last.time_since_epoch());
    return result;
  }

  Ranked ranked(OpId v) const {
    return {std::uint64_t{ops_[v].turn} << 32 | static_cast<std::uint64_t>(index(v))};
  }

  /// Of the ops in the order in which they are preferred.
  std::size_t place(OpId v) const {
    return options_.variant == Variant::pytorch ? ops_[v].turn : index(v);
  }

  bool may_go(OpId v, DeviceId d) const { return ops_[v].home == anywhere || ops_[v].home == d; }

  /// The devices that have an input of `v`, or a copy of one, are asked at once. Any other must
  /// have every input sent: elsewhere_ answers for them, or till the time that takes at least none
  /// of them is asked.
  void make_ready(OpId v) {
    transfers_.find_inputs(v);
    if (options_.variant == Variant::pytorch) ops_[v].turn = became_ready_++;
    if (!options_.favourite.empty()) ready_.push_back(v);
    if (!elsewhere_) first_.push(ranked(v));
    if (ops_[v].home != anywhere) return ask(ops_[v].home, v);
    if (elsewhere_ && cluster_.num_devices() <= few) {
      for (const DeviceId d : cluster_.devices()) ask(d, v);
      return;
    }
    if (elsewhere_) {
      transfers_.for_each_nearer(v, [&](DeviceId d) {
        if (std::exchange(devices_[d].asked_for, v) != v) ask(d, v);
      });
      return elsewhere_->add(v, place(v), now_);
    }
    if (!transfers_.links_alike() || cluster_.num_devices() <= few_one_by_one) {
      asked_of_all_.push_back(v);
      return;
    }
    holders_.clear();
    transfers_.for_each_holder(v, [&](DeviceId d) { holders_.push_back(d); });
    std::ranges::sort(holders_);
    const auto rest = std::ranges::unique(holders_);
    holders_.erase(rest.begin(), rest.end());
    for (const DeviceId d : holders_) ask(d, v);
    lonely_.push({transfers_.earliest_elsewhere(v), v});
  }

  void ask(DeviceId d, OpId v) {
    devices_[d].soon.push(ranked(v));
    asked_.insert(d);
  }

  /// The ready ops that read `t` may now start on `d` earlier than thought.
  void ask_readers(TensorId t, DeviceId d) {
    for (const EdgeId e : graph_.readers(t)) {
      const OpId v = graph_.edge(e).dst;
      if (ops_[v].unmet == 0 && may_go(v, d)) ask(d, v);
    }
  }

  /// Moves what may start by now to `soon`.
  void advance(DeviceId d) {
    DeviceQueues& dev = devices_[d];
    for (; dev.asked < asked_of_all_.size(); ++dev.asked) {
      const OpId v = asked_of_all_[dev.asked];
      if (may_go(v, d)) ask(d, v);
    }
    for (; !dev.later.empty() && dev.later.top().at <= now_; dev.later.pop()) {
      const OpId v = dev.later.top().op;
      if (may_go(v, d)) ask(d, v);
    }
  }

  /// The first op, as ranked, that could start on the idle device `d` now, if it is before `bound`.
  Ranked first_startable(DeviceId d, Ranked bound) {
    DeviceQueues& dev = devices_[d];
    for (; !dev.soon.empty() && dev.soon.top() < bound; dev.soon.pop()) {
      const OpId v = dev.soon.top().op();
      if (!may_go(v, d)) continue;
      const TimePoint at = transfers_.arrival(v, d);
      if (at > now_ && elsewhere_)
        later_.push({{at, v}, d});
      else if (at > now_)
        dev.later.push({at, v});
      else if (memory_.has_room(v, d))
        return dev.soon.top();
      else if (memory_.weights_fit(v, d))
        dev.blocked.push({memory_.need(v, d), v});
      // else it never will
    }
    return nothing;
  }

  Choice choose(DeviceId d, Ranked bound) {
    if (const OpId f = awaited(d); f != no_op) return choose_awake(d, f);
    advance(d);
    const Ranked v = first_startable(d, bound);
    return {v, devices_[d].later.empty() ? never : devices_[d].later.top().at};
  }

  /// The favourite child that the idle device `d` waits for, if it does.
  OpId awaited(DeviceId d) {
    const OpId last = devices_[d].last;
    if (options_.favourite.empty() || last == no_op) return no_op;
    const OpId f = options_.favourite[last];
    if (f == no_op || ops_[f].unmet > 0 || !may_go(f, d) || !memory_.has_room(f, d)) return no_op;
    return earlier_elsewhere(f, d) ? no_op : f;
  }

  /// Whether a device other than `d` could start `f` earlier.
  bool earlier_elsewhere(OpId f, DeviceId d) {
    const TimePoint here = start_at(f, d);
    if (here <= now_) return false;
    const auto earlier = [&](DeviceId other) {
      return other != d && may_go(f, other) && start_at(f, other) < here &&
             memory_.has_room(f, other);
    };
    if (!elsewhere_ || transfers_.on_their_way(f).sent < here)
      return std::ranges::any_of(cluster_.devices(), earlier);
    bool any = false;
    transfers_.for_each_nearer(f, [&](DeviceId other) { any = any || earlier(other); });
    return any;
  }

  TimePoint start_at(OpId v, DeviceId d) {
    return std::max({transfers_.arrival(v, d), devices_[d].free_at, now_});
  }

  /// `d` waits for its favourite `f`, unless something is urgent.
  Choice choose_awake(DeviceId d, OpId f) {
    Ranked most_urgent = nothing;
    TimePoint urgent = never;
    // Where every device has room, an op that may go anywhere is not urgent before the last running
    // op has ended, and that is an instant anyway.
    const bool only_pinned = memory_.ample() && !ends_.empty();
    // The last to be free first: mostly that one decides.
    if (!only_pinned) {
      std::ranges::sort(last_free_first_, std::greater{},
                        [&](DeviceId other) { return std::pair(devices_[other].free_at, other); });
    }
    for (const OpId v : ready_) {
      if (only_pinned && ops_[v].home == anywhere) continue;
      if (!may_go(v, d) || !memory_.has_room(v, d)) continue;
      TimePoint latest = start_at(v, d);
      const auto not_before = [&] {
        return std::pair(latest, ranked(v)) >= std::pair(urgent, most_urgent);
      };
      if (ops_[v].home == anywhere) {
        for (const DeviceId other : last_free_first_) {
          if (not_before()) break;
          if (other == d) continue;
          if (const TimePoint at = start_at(v, other); at > latest && memory_.has_room(v, other))
            latest = at;
        }
      }
      if (!not_before()) {
        urgent = latest;
        most_urgent = ranked(v);
      }
    }
    if (urgent <= now_) return {most_urgent, never};
    const TimePoint at = start_at(f, d);
    if (at <= now_) return {ranked(f), never};
    return {nothing, std::min(at, urgent)};
  }

  /// Starts the best (op, device) that can start now; if there is none, says false and sets
  /// ask_again_.
  bool start_one() {
    Ranked best = nothing;
    DeviceId where{};
    ask_again_ = never;
    for (; !lonely_.empty() && lonely_.top().at <= now_; lonely_.pop())
      if (ops_[lonely_.top().op].home == anywhere) asked_of_all_.push_back(lonely_.top().op);
    for (const DeviceId d : cluster_.devices()) {
      if (devices_[d].running != no_op) continue;
      // Where memory decides, all are asked: what has no room now is asked again when there is.
      const Choice choice = choose(d, memory_.ample() && alike_ ? best : nothing);
      ask_again_ = std::min(ask_again_, choice.ask_at);
      if (choice.op == nothing || choice.op > best) continue;
      if (choice.op == best && !sooner(best.op(), d, where)) continue;
      best = choice.op;
      where = d;
      if (alike_ && best == first_ready()) break;  // no device has a better
    }
    if (best == nothing) {
      if (!lonely_.empty()) ask_again_ = std::min(ask_again_, lonely_.top().at);
      return false;
    }
    start(best.op(), where);
    return true;
  }

  /// As start_one(), where devices are alike and memory never decides: asks those that may have an
  /// input of something, and all others at once.
  bool start_first() {
    ask_again_ = never;
    if (ends_.size() == cluster_.num_devices()) return false;
    for (; !later_.empty() && later_.top().first.at <= now_; later_.pop()) {
      const auto [candidate, d] = later_.top();
      if (may_go(candidate.op, d)) ask(d, candidate.op);
    }
    Ranked best = nothing;
    DeviceId where{};
    const auto offer = [&](Ranked v, DeviceId d) {
      if (v > best || (v == best && d >= where)) return;
      best = v;
      where = d;
    };
    hopeful_.drain([&](DeviceId d) {
      DeviceQueues& dev = devices_[d];
      if (dev.running != no_op) return;
      const OpId f = awaited(d);
      if (const bool waits = f != no_op; waits != dev.waits) {
        dev.waits = waits;
        show_idle(d);
      }
      const OpId favourite = options_.favourite[dev.last];
      if (favourite != no_op && ops_[favourite].home != started) hopeful_.insert(d);
      if (!dev.waits) return;
      const Choice choice = choose_awake(d, f);
      ask_again_ = std::min(ask_again_, choice.ask_at);
      if (choice.op != nothing) offer(choice.op, d);
    });
    asked_.drain([&](DeviceId d) {
      DeviceQueues& dev = devices_[d];
      if (dev.running != no_op) return;
      if (!dev.waits) {
        Ranked bound = best;
        if (best != nothing && d < where) ++bound.turn_and_id;
        if (const Ranked v = first_startable(d, bound); v != nothing) offer(v, d);
      }
      if (!dev.soon.empty()) asked_.insert(d);
    });
    const std::size_t last = best == nothing ? graph_.num_ops() : place(best.op());
    if (const auto [v, d] = elsewhere_->first(last, now_); v != no_op) offer(ranked(v), d);
    if (best == nothing) {
      ask_again_ = std::min(ask_again_, elsewhere_->ask_at());
      if (!later_.empty()) ask_again_ = std::min(ask_again_, later_.top().first.at);
      return false;
    }
    start(best.op(), where);
    return true;
  }

  void show_idle(DeviceId d) {
    if (devices_[d].running == no_op && !devices_[d].waits)
      elsewhere_->set_idle(d);
    else
      elsewhere_->set_busy(d);
  }

  bool sooner(OpId v, DeviceId d, DeviceId than) const {
    return !alike_ && costs_.compute(v, d) < costs_.compute(v, than);
  }

  Ranked first_ready() {
    while (ops_[first_.top().op()].home == started) first_.pop();
    return first_.top();
  }

  void start(OpId v, DeviceId d) {
    if (graph_.op(v).group != no_group && ops_[v].home == anywhere) pin_group(v, d);
    ops_[v].home = started;
    const bool copies_matter = transfers_.cached() && (transfers_.limited() || !memory_.ample());
    const TimePoint inputs = transfers_.book(v, d, [&](TensorId t) {
      if (copies_matter) ask_readers(t, d);
    });
    memory_.start(v, d);
    DeviceQueues& dev = devices_[d];
    dev.free_at = std::max({now_, dev.free_at, inputs}) + costs_.compute(v, d);
    dev.running = dev.last = v;
    dev.waits = false;
    if (elsewhere_) {
      elsewhere_->erase(place(v));
      show_idle(d);
      for (const PlannedTransfers::Input& in : transfers_.inputs(v))
        if (in.src != d && in.src != PlannedTransfers::everywhere) show_idle(in.src);
    }
    transfers_.schedule(v, d, dev.free_at);
    ends_.emplace(dev.free_at, d);
    order_.push_back(v);
    if (!options_.favourite.empty()) std::erase(ready_, v);
  }

  void pin_group(OpId v, DeviceId d) {
    for (const OpId member : graph_.members(graph_.op(v).group)) {
      ops_[member].home = d;
      if (elsewhere_ && ops_[member].unmet == 0) elsewhere_->erase(place(member));
      // One that found no room for the group's weights has room for itself now.
      if (ops_[member].unmet == 0 && member != v) ask(d, member);
    }
  }

  void end_op(DeviceId d) {
    const OpId v = devices_[d].running;
    devices_[d].running = no_op;
    if (elsewhere_) {
      show_idle(d);
      if (!devices_[d].soon.empty()) asked_.insert(d);
      if (!options_.favourite.empty() && options_.favourite[v] != no_op) hopeful_.insert(d);
    }
    memory_.end(v, d);
    if (!memory_.ample()) {
      ask_blocked(d);
      for (const PlannedTransfers::Input& in : transfers_.inputs(v))
        if (in.src != PlannedTransfers::everywhere) ask_blocked(in.src);
    }
    for (const EdgeId e : graph_.out_edges(v)) {
      const OpId reader = graph_.edge(e).dst;
      if (--ops_[reader].unmet == 0) make_ready(reader);
    }
  }

  /// Those that now may fit are asked again.
  void ask_blocked(DeviceId d) {
    auto& blocked = devices_[d].blocked;
    for (; !blocked.empty() && memory_.is_free(blocked.top().need, d); blocked.pop())
      ask(d, blocked.top().op);
  }

  /// What an op needs can shrink while it is blocked, where a copy of its input arrives for
  /// another. False if nothing was scheduled since the last time of asking.
  bool ask_blocked_again() {
    if (asked_at_ == order_.size()) return false;
    asked_at_ = order_.size();
    for (const DeviceId d : cluster_.devices()) {
      auto& blocked = devices_[d].blocked;
      for (; !blocked.empty(); blocked.pop()) ask(d, blocked.top().op);
    }
    return true;
  }

  const OpGraph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  const ListSchedulerOptions& options_;
  const bool alike_;  // an op takes the same time on every device
  PlannedTransfers transfers_;
  PlannedMemory memory_;
  IdVector<DeviceId, DeviceQueues> devices_;
  IdVector<OpId, OpState> ops_;
  std::optional<Elsewhere> elsewhere_;  // where devices are alike and memory never decides
  DeviceSet asked_;                     // idle devices with something in `soon`, among others
  DeviceSet hopeful_;                   // idle devices whose last op's favourite has not started
  MinHeap<std::pair<Candidate, DeviceId>> later_;  // where elsewhere_ is, those of all devices
  MinHeap<Ranked> first_;                          // ready ops, and some that were
  std::vector<DeviceId> holders_;                  // of inputs of an op, or copies of them
  MinHeap<Candidate> lonely_;       // ready ops that other devices than those with an input...
  std::vector<OpId> asked_of_all_;  // ...may start, and those whose time for it has come
  std::vector<OpId> ready_;         // not scheduled; only m-SCT walks it
  std::vector<DeviceId> last_free_first_;         // of m-SCT, when it last looked
  MinHeap<std::pair<TimePoint, DeviceId>> ends_;  // of the running ops
  std::vector<OpId> order_;                       // as scheduled
  std::uint32_t became_ready_ = 0;
  TimePoint now_{};
  TimePoint ask_again_ = never;             // when an idle device may have something to start
  std::size_t asked_at_ = ~std::size_t{0};  // ops scheduled when the blocked were last asked
};

/// Why `placement` cannot be returned, or "".
std::string flaw(const Problem& p, const Placement& placement) {
  const StepResult step = simulate(p, placement);
  if (!step.oom) return "";
  return fmt::format(
      "the placement found runs out of memory when simulated: {} at {}, op '{}' asks for {}, {} "
      "are free",
      p.cluster.device(step.oom->device).name, to_text(step.oom->at.time_since_epoch()),
      p.graph.name(step.oom->op), to_text(step.oom->needed), to_text(step.oom->free));
}

}  // namespace

Placement schedule_list(const Problem& problem, const ListSchedulerOptions& options,
                        std::string_view name) {
  static constexpr Caution all[] = {{}, {.spare = 1}, {.spare = 2}, {0.9, 2}, {.keep_all = true}};
  std::span<const Caution> cautions = all;
  if (options.variant == Variant::pytorch)
    cautions = cautions.last(1);
  else if (!options.fallback)
    cautions = cautions.first(1);
  std::string first_failure;
  double attempts = 0;
  for (Caution caution : cautions) {
    caution.reserve = options.reserve;
    ++attempts;
    ListSchedule attempt(problem, options, caution);
    std::optional<Placement> placement = attempt.run();
    std::string failure;
    if (!placement)
      failure = attempt.stuck();
    else if (!attempt.ample())
      failure = flaw(problem, *placement);
    if (placement && failure.empty()) {
      if (!first_failure.empty()) {
        placement->detail =
            fmt::format("fallback: placed with {}; at first: {}", to_text(caution), first_failure);
      }
      placement->facts["attempts"] = attempts;
      return *std::move(placement);
    }
    if (first_failure.empty()) first_failure = failure;
  }
  throw InfeasibleError(fmt::format("{}: {}{}", name, first_failure,
                                    cautions.size() > 1 ? "; nor in a more cautious way" : ""));
}

}  // namespace baechi
