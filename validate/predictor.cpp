#include "validate/predictor.h"

#include <cmath>
#include <tuple>

#include "sim/error.h"
#include "validate/plan/timeline.h"

namespace baechi::validate {
namespace {

std::string_view measured_mode(SubmitMode mode) {
  return mode == SubmitMode::graph ? "graph" : "stream";
}

std::string_view direction(const ReplayPlan& plan, const Task& transfer) {
  if (plan.way != Way::host) return "";
  return transfer.device == Task::host ? "h2d" : "d2h";
}

/// Throws InputError unless the calibration knows what the plan is made of.
void check_known(const ReplayPlan& plan, const Calibration& calibration) {
  std::set<std::string> missing;
  const std::string_view mode = measured_mode(plan.mode);
  if (calibration.find_mode(mode) == nullptr) missing.insert(fmt::format("gaps of mode {}", mode));
  if (calibration.partitions.size() < static_cast<std::size_t>(plan.devices))
    missing.insert(
        fmt::format("{} of {} devices (it has {} partitions)",
                    static_cast<std::size_t>(plan.devices) - calibration.partitions.size(),
                    plan.devices, calibration.partitions.size()));
  for (const Task& t : plan.tasks) {
    if (t.transfer && transfer_of(plan, calibration, t) == nullptr)
      missing.insert(fmt::format("transfers of way {}{}{} in mode {}", to_text(plan.way),
                                 plan.way == Way::host ? " " : "", direction(plan, t), mode));
    if (!t.transfer && t.body.kind != BodyKind::spin &&
        calibration.find_op(to_text(t.body.kind)) == nullptr)
      missing.insert(fmt::format("ops of kind {}", to_text(t.body.kind)));
  }
  if (!missing.empty())
    throw InputError(fmt::format("{}: the calibration of '{}' does not have {}", plan.name,
                                 calibration.gpu, fmt::join(missing, ", ")));
}

Duration length_of(const ReplayPlan& plan, const Calibration& calibration, const Task& task) {
  if (!task.transfer) {
    const auto* op = calibration.find_op(to_text(task.body.kind), measured_mode(plan.mode));
    if (task.body.kind == BodyKind::spin && op == nullptr) return task.length;
    return rounded(op->time(task.body.amount()));
  }
  const auto* transfer = transfer_of(plan, calibration, task);
  const Duration moving = rounded(transfer->time(static_cast<double>(task.bytes)));
  return transfer->paced ? std::max(task.length, moving) : moving;
}

std::vector<std::vector<double>> slowdowns(const Calibration& calibration) {
  constexpr std::size_t kinds = all<BodyKind>().size();
  std::vector<std::vector<double>> table(kinds, std::vector<double>(kinds, 0.0));
  bool any = false;
  for (const auto& entry : calibration.interference) {
    const auto op = parse<BodyKind>(entry.op);
    const auto neighbour = parse<BodyKind>(entry.neighbour);
    if (!op || !neighbour) continue;
    double& cell = table[static_cast<std::size_t>(*op)][static_cast<std::size_t>(*neighbour)];
    cell = std::max(entry.per_neighbour.value, 0.0);
    any = any || cell > 0.0;
  }
  return any ? table : std::vector<std::vector<double>>{};
}

/// What the ops of a plan want of the memory, if the calibration knows what it has.
void set_demands(Timing& timing, const ReplayPlan& plan, const Calibration& calibration) {
  timing.capacity = calibration.bandwidth.capacity;
  if (timing.capacity <= 0.0) return;
  timing.demand.assign(plan.tasks.size(), 0.0);
  timing.sensitivity.assign(plan.tasks.size(), 0.0);
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    if (t.transfer) continue;
    const auto known = std::ranges::find(calibration.bandwidth.demands, to_text(t.body.kind),
                                         &Calibration::Bandwidth::Demand::kind);
    if (known == calibration.bandwidth.demands.end()) continue;
    timing.sensitivity[i] = known->sensitivity;
    timing.demand[i] = known->bytes_per_ns;
    if (t.body.kind == BodyKind::ew && timing.length[i] > Duration::zero())
      timing.demand[i] = t.body.amount() / static_cast<double>(timing.length[i].count());
  }
}

constexpr Duration never{std::numeric_limits<std::int64_t>::max()};

/// Runs a plan in time: the heads of queues start when they can, and what runs ends.
class Predictor {
 public:
  Predictor(const ReplayPlan& plan, const Timing& timing)
      : plan_(plan),
        timing_(timing),
        queue_(plan.num_queues()),
        unmet_(plan.tasks.size()),
        ready_(plan.tasks.size(), Duration::zero()),
        waiters_(plan.tasks.size()),
        more_(plan.tasks.size(), Duration::zero()) {
    result_.start.resize(plan.tasks.size());
    result_.end.resize(plan.tasks.size());
  }

  Replay run() {
    load();
    while (true) {
      const auto [start, head] = next_start();
      const auto [end, running] = next_end();
      if (start == never && end == never) break;
      if (end <= start)
        finish(running);
      else
        begin(head, start);
    }
    return normalised();
  }

 private:
  struct Queue {
    std::vector<int> tasks;
    std::size_t head = 0;
    Duration free{};    // when the next may start
    bool busy = false;  // with an op, whose end is not yet certain
  };
  struct Running {
    int task;
    Duration since{};        // of what follows
    double remaining = 0.0;  // undisturbed ns
    double slowdown = 1.0;
  };

  const Task& task(int id) const { return plan_.tasks[static_cast<std::size_t>(id)]; }
  Duration& end_of(int id) { return result_.end[static_cast<std::size_t>(id)]; }
  const Timing::Transfer& transfer(const Task& t) const {
    return timing_.transfers[t.device == Task::host ? 1 : 0];
  }
  /// The part of a transfer's latency that passes before the transfer starts; as much passes after
  /// its end.
  Duration hop(const Task& t) const { return std::min(timing_.cross_gap, transfer(t).latency / 2); }

  void load() {
    for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
      const Task& t = plan_.tasks[i];
      queue_[plan_.queue_of(t)].tasks.push_back(static_cast<int>(i));
      if (t.transfer) channel_of(t).tasks.push_back(static_cast<int>(i));
      unmet_[i] = t.after.size();
      for (const int before : t.after)
        waiters_[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
      std::set<std::size_t> queues;
      for (const int before : t.after) queues.insert(plan_.queue_of(task(before)));
      queues.erase(plan_.queue_of(t));
      if (!t.transfer && queues.size() >= 2) more_[i] = timing_.fan_in_more;
    }
  }

  /// What transfers of a direction share.
  struct Channel {
    Duration free{};
    std::vector<int> tasks;  // in the order of the plan
    std::size_t next = 0;
  };
  Channel& channel_of(const Task& t) { return channels_[t.device == Task::host ? 1 : 0]; }

  /// The first of the heads that may start, by time. Transfers that wait for one channel go by when
  /// they were ready, or in the order of the plan; then by id.
  std::pair<Duration, std::size_t> next_start() {
    std::tuple<Duration, Duration, int, std::size_t> best{never, {}, 0, 0};
    for (std::size_t q = 0; q < queue_.size(); ++q) {
      const Queue& queue = queue_[q];
      if (queue.busy || queue.head == queue.tasks.size()) continue;
      const int id = queue.tasks[queue.head];
      if (unmet_[static_cast<std::size_t>(id)] != 0) continue;
      const Task& t = task(id);
      const Duration ready = std::max(queue.free, ready_[static_cast<std::size_t>(id)]);
      Duration at = ready;
      if (t.transfer && transfer(t).shared) {
        const Channel& channel = channel_of(t);
        if (transfer(t).in_order && channel.tasks[channel.next] != id) continue;
        at = std::max(at, channel.free);
      }
      best = std::min(best, std::tuple(at, ready, id, q));
    }
    return {std::get<0>(best), std::get<3>(best)};
  }

  std::pair<Duration, std::size_t> next_end() {
    Duration at = never;
    std::size_t which = 0;
    for (std::size_t r = 0; r < running_.size(); ++r) {
      if (end_of(running_[r].task) >= at) continue;
      at = end_of(running_[r].task);
      which = r;
    }
    return {at, which};
  }

  void begin(std::size_t q, Duration at) {
    Queue& queue = queue_[q];
    const int id = queue.tasks[queue.head++];
    const auto i = static_cast<std::size_t>(id);
    const Task& t = task(id);
    if (!t.transfer) {
      queue.busy = true;
      result_.start[i] = at;
      end_of(id) = at + timing_.length[i];
      running_.push_back({id, at, static_cast<double>(timing_.length[i].count()), 1.0});
      return slow_down(at);
    }
    const Timing::Transfer& costs = transfer(t);
    result_.start[i] = at + hop(t);
    end_of(id) = at + costs.latency - hop(t) + timing_.length[i];
    queue.free = at + costs.occupancy + timing_.length[i];
    if (costs.shared) {
      channel_of(t).free = at + costs.channel + timing_.length[i];
      ++channel_of(t).next;
    }
    running_.push_back({id, at, 0.0, 1.0});
  }

  void finish(std::size_t which) {
    const int id = running_[which].task;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    const Task& t = task(id);
    const Duration end = end_of(id);
    Queue& queue = queue_[plan_.queue_of(t)];
    if (!t.transfer) {
      queue.busy = false;
      queue.free = end + (timing_.gap_after.empty()
                              ? timing_.same_gap
                              : timing_.gap_after[static_cast<std::size_t>(t.body.kind)]);
    }
    for (const int w : waiters_[static_cast<std::size_t>(id)]) {
      const Task& waiter = task(w);
      Duration at = end;
      const Duration more = more_[static_cast<std::size_t>(w)];
      if (t.transfer && !waiter.transfer)
        at += hop(t) + more;
      else if (!waiter.transfer && plan_.queue_of(waiter) != plan_.queue_of(t))
        at += timing_.cross_gap + more;
      auto& ready = ready_[static_cast<std::size_t>(w)];
      ready = std::max(ready, at);
      --unmet_[static_cast<std::size_t>(w)];
    }
    if (!t.transfer) slow_down(end);
  }

  double shared(const Running& r, double wanted) const {
    return 1.0 + timing_.sensitivity[static_cast<std::size_t>(r.task)] *
                     (std::max(1.0, wanted / timing_.capacity) - 1.0);
  }
  double beside(const Task& t) const {
    double slowdown = 1.0;
    for (const Running& other : running_) {
      const Task& o = task(other.task);
      if (o.transfer || o.device == t.device) continue;
      slowdown += timing_.slowdown[static_cast<std::size_t>(t.body.kind)]
                                  [static_cast<std::size_t>(o.body.kind)];
    }
    return slowdown;
  }

  /// Ops run as slowly, from `now` on, as those of the other devices make them.
  void slow_down(Duration now) {
    if (timing_.slowdown.empty() && timing_.capacity <= 0.0) return;
    double wanted = 0.0;
    if (timing_.capacity > 0.0)
      for (const Running& r : running_) wanted += timing_.demand[static_cast<std::size_t>(r.task)];
    for (Running& r : running_) {
      const Task& t = task(r.task);
      if (t.transfer) continue;
      const double slowdown = timing_.capacity > 0.0 ? shared(r, wanted) : beside(t);
      if (slowdown == r.slowdown) continue;
      r.remaining -= static_cast<double>((now - r.since).count()) / r.slowdown;
      r.remaining = std::max(r.remaining, 0.0);
      r.since = now;
      r.slowdown = slowdown;
      end_of(r.task) = now + rounded(r.remaining * slowdown);
    }
  }

  Replay normalised() {
    if (result_.start.empty()) return std::move(result_);
    const Duration first = *std::ranges::min_element(result_.start);
    for (Duration& at : result_.start) at -= first;
    for (Duration& at : result_.end) at -= first;
    return std::move(result_);
  }

  const ReplayPlan& plan_;
  const Timing& timing_;
  std::vector<Queue> queue_;
  std::vector<std::size_t> unmet_;         // tasks it waits for
  std::vector<Duration> ready_;            // when those had ended
  std::vector<std::vector<int>> waiters_;  // who waits for it
  std::vector<Duration> more_;             // gaps of ops that wait for several queues
  std::vector<Running> running_;
  Channel channels_[2];
  Replay result_;
};

}  // namespace

Duration rounded(double ns) { return Duration{std::llround(std::max(ns, 0.0))}; }

const Calibration::Transfer* transfer_of(const ReplayPlan& plan, const Calibration& calibration,
                                         const Task& task) {
  return calibration.find_transfer(measured_mode(plan.mode), to_text(plan.way),
                                   direction(plan, task));
}

Timing timing_of(const ReplayPlan& plan, const Calibration* calibration, const Effects& effects) {
  Timing timing;
  for (const Task& t : plan.tasks) timing.length.push_back(t.length);
  if (calibration == nullptr) return timing;
  check_known(plan, *calibration);
  const Calibration::Mode& mode = *calibration->find_mode(measured_mode(plan.mode));
  if (effects.op_gap) timing.same_gap = rounded(mode.same_ns.value);
  if (effects.op_gap && !mode.after.empty()) {
    timing.gap_after.assign(all<BodyKind>().size(), timing.same_gap);
    for (const auto& after : mode.after)
      if (const auto kind = parse<BodyKind>(after.kind))
        timing.gap_after[static_cast<std::size_t>(*kind)] = rounded(after.same_ns.value);
  }
  if (effects.cross_gap) timing.cross_gap = rounded(mode.cross_ns.value);
  if (effects.cross_gap && mode.fan_in_ns != Estimate{})
    timing.fan_in_more =
        std::max(rounded(mode.fan_in_ns.value) - timing.cross_gap, Duration::zero());
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    if (effects.costs) timing.length[i] = length_of(plan, *calibration, t);
    if (!t.transfer) continue;
    const auto* known = transfer_of(plan, *calibration, t);
    Timing::Transfer& costs = timing.transfers[t.device == Task::host ? 1 : 0];
    if (effects.latency) costs.latency = rounded(known->latency_ns.value);
    costs.occupancy =
        effects.occupancy && effects.latency ? rounded(known->occupancy_ns.value) : costs.latency;
    costs.shared = effects.sharing && known->shared;
    costs.channel =
        effects.occupancy && effects.latency ? rounded(known->channel_ns.value) : costs.occupancy;
    costs.in_order = known->in_order;
  }
  if (effects.interference) {
    set_demands(timing, plan, *calibration);
    timing.slowdown = slowdowns(*calibration);
  }
  return timing;
}

Duration Replay::step() const {
  return end.empty() ? Duration::zero() : *std::ranges::max_element(end);
}

Replay predict(const ReplayPlan& plan, const Timing& timing) {
  BAECHI_CHECK(timing.length.size() == plan.tasks.size(), "{} lengths of {} tasks",
               timing.length.size(), plan.tasks.size());
  return Predictor(plan, timing).run();
}

std::vector<Bytes> peaks(const ReplayPlan& plan, const Replay& replay) {
  replay::Timeline times;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i)
    times.push_back({replay.start[i].count(), replay.end[i].count()});
  std::vector<Bytes> most;
  for (const std::int64_t bytes : replay::peak_bytes(plan, times)) most.push_back({bytes});
  return most;
}

}  // namespace baechi::validate
