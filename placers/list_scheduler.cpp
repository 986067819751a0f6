#include "placers/list_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <queue>

#include "sim/engine/channels.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

/// How cautious one attempt is.
struct Caution {
  double memory_share = 1.0;  ///< of each device's memory that is planned with
  /// For a group to come to a device, this many times the most that any member of a group there may
  /// need at once, inputs included, must stay free: the backward ops, which come late and cannot go
  /// elsewhere, would find the memory full of what they are to free.
  int spare = 0;
  bool keep_all = false;  ///< plan as if nothing were ever freed
};

/// Planned memory of one device.
struct Room {
  Bytes limit;
  Bytes weights;    ///< held from time 0, whenever it was placed
  Bytes live;       ///< outputs, copies and workspace now
  Bytes peak_live;  ///< the most so far: weights placed later were there then, too
  Bytes reserved;   ///< for the groups that live here
  Bytes largest;    ///< the most that any member of a group here may need, inputs included
  Bytes workspace;  ///< if nothing is freed: the most any op here has had, part of `live`

  bool fits(Bytes more_weights, Bytes more_live) const {
    return weights + more_weights + std::max(peak_live, live + more_live) <= limit;
  }
  Bytes left() const { return std::max(Bytes{}, limit - weights - peak_live); }
  void take(Bytes size) {
    live += size;
    peak_live = std::max(peak_live, live);
  }
};

/// One attempt. Ids break all ties, so nothing depends on the order of heaps or lists.
class ListSchedule {
 public:
  ListSchedule(const Problem& p, const ListSchedulerOptions& options, Caution caution)
      : graph_(p.graph),
        cluster_(p.cluster),
        costs_(p.costs),
        options_(options),
        caution_(caution),
        cached_(p.engine.cache_tensors),
        channels_(options.variant == Variant::pytorch ? Transfers::parallel : p.engine.transfers,
                  p.cluster.num_devices()),
        clock_(channels_.num_channels()),
        devices_(p.cluster.num_devices()),
        ops_(graph_.num_ops()),
        readers_left_(graph_.num_tensors()),
        first_copy_(graph_.num_tensors(), no_copy),
        groups_(graph_.num_groups() + 1) {
    for (const DeviceId d : cluster_.devices()) {
      const Bytes memory = cluster_.device(d).memory;
      devices_[d].room.limit =
          p.engine.enforce_memory ? caution.memory_share * memory : Bytes{std::int64_t{1} << 62};
    }
    ample_ = all_fits_anywhere();
    const DeviceId first_device{0};
    alike_ = std::ranges::all_of(cluster_.devices(),
                                 [&](DeviceId d) { return costs_.compute_alike(first_device, d); });
    alike_links_ = cluster_.num_devices() > 1 && costs_.transfers_alike();
    if (alike_links_) {
      transfer_.reserve(graph_.num_tensors());
      for (const TensorId t : graph_.tensors())
        transfer_.push_back(costs_.transfer(t, first_device, DeviceId{1}));
    }
    for (const TensorId t : graph_.tensors())
      readers_left_[t] = static_cast<std::uint32_t>(graph_.readers(t).size());
    for (const OpId v : graph_.ops()) {
      Group& group = groups_[index(graph_.op(v).group)];
      group.weights += graph_.op(v).persistent;
      group.most = std::max(group.most, own_need(v));
      group.outputs += output_bytes(graph_, v);
      Bytes inputs;
      for (const EdgeId e : graph_.in_edges(v)) inputs += copied(graph_.edge(e).tensor);
      group.largest = std::max(group.largest, own_need(v) + inputs);
      ++group.to_schedule;
    }
  }

  /// The placement, or nothing: then stuck() says why.
  std::optional<Placement> run() {
    for (const OpId v : graph_.ops()) {
      ops_[v].unmet = static_cast<std::uint32_t>(graph_.in_edges(v).size());
      if (ops_[v].unmet == 0) make_ready(v);
    }
    while (true) {
      while (start_one()) {
      }
      const TimePoint next = ends_.empty() ? ask_again_ : std::min(ask_again_, ends_.top().first);
      if (next == never && !ask_blocked_again()) break;
      if (next != never) now_ = next;
      for (; !ends_.empty() && ends_.top().first <= now_; ends_.pop()) end_op(ends_.top().second);
    }
    if (order_.size() < graph_.num_ops()) return std::nullopt;
    Placement result{.device = IdVector<OpId, DeviceId>(graph_.num_ops()),
                     .priority = IdVector<OpId, std::int32_t>(graph_.num_ops())};
    for (const OpId v : graph_.ops()) result.device[v] = ops_[v].device;
    auto priority = static_cast<std::int32_t>(order_.size());
    for (const OpId v : order_) result.priority[v] = priority--;
    TimePoint last{};  // not now_: what is asked again last may be an op long scheduled elsewhere
    for (const OpState& op : ops_) last = std::max(last, op.end);
    result.facts["planned_step_us"] = to_us(last.time_since_epoch());
    return result;
  }

  std::string stuck() const {
    for (const OpId v : graph_.ops()) {
      if (ops_[v].scheduled || ops_[v].unmet > 0) continue;
      DeviceId roomiest = ops_[v].device;
      for (const DeviceId d : cluster_.devices()) {
        if (!ops_[v].pinned && devices_[d].room.left() > devices_[roomiest].room.left())
          roomiest = d;
      }
      return fmt::format(
          "stuck with {} of {} ops placed: op '{}' needs {} of weights and {} while it runs; {}{} "
          "has {} left beside its peak",
          order_.size(), graph_.num_ops(), graph_.name(v), to_text(weights_to_place(v)),
          to_text(own_need(v)), cluster_.device(roomiest).name,
          ops_[v].pinned ? ", where its group is," : ", the roomiest,",
          to_text(devices_[roomiest].room.left()));
    }
    return "stuck";
  }

 private:
  static constexpr std::uint32_t no_copy = ~std::uint32_t{0};
  static constexpr std::size_t few_devices = 8;  // that asking them all is the fastest
  static constexpr TimePoint never = TimePoint::max();

  struct OpState {
    TimePoint end{};
    DeviceId device{};
    std::uint32_t unmet = 0;  // inputs not computed
    std::uint32_t turn = 0;   // PyTorch variant: how many ops became ready before it
    bool pinned = false;      // its group has a device
    bool scheduled = false;
  };
  /// A tensor on a device other than its producer's.
  struct Copy {
    TimePoint arrival{};
    DeviceId device{};
    std::uint32_t readers = 0;  // scheduled there, not ended
    std::uint32_t next = no_copy;
  };
  struct Group {
    Bytes weights{};
    Bytes most{};     // outputs and workspace of the most demanding member
    Bytes largest{};  // the same with its inputs
    Bytes outputs{};  // of all members
    std::size_t to_schedule = 0;
  };
  /// Which of the ops that could start now does: the least, by turn, then id.
  struct Ranked {
    std::uint32_t turn = ~std::uint32_t{0};
    OpId op = no_op;
    friend auto operator<=>(const Ranked&, const Ranked&) = default;
  };
  /// A ready op as a device sees it; `at` may be too early, since channels fill up.
  struct Candidate {
    TimePoint at{};
    OpId op{};
    friend auto operator<=>(const Candidate&, const Candidate&) = default;
  };
  template <class T>
  using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;
  struct Blocked {
    Bytes need{};
    OpId op{};
    friend auto operator<=>(const Blocked&, const Blocked&) = default;
  };
  struct DeviceState {
    TimePoint free_at{};
    OpId running = no_op;
    OpId last = no_op;
    Room room{};
    MinHeap<Candidate> later{};  // ready ops that could start after `now_`
    MinHeap<Ranked> soon{};      // that could start by `now_`
    MinHeap<Blocked> blocked{};  // without room, least need first
    std::size_t asked = 0;       // how many of asked_of_all_ are in `later`
  };
  /// What a device would do now, or when to ask again.
  struct Choice {
    OpId op = no_op;
    TimePoint ask_at = never;
  };

  Ranked ranked(OpId v) const { return v == no_op ? Ranked{} : Ranked{ops_[v].turn, v}; }
  Bytes held(TensorId t) const { return graph_.tensor(t).held(); }
  Bytes copied(TensorId t) const { return graph_.tensor(t).copied(); }
  /// Outputs and workspace.
  Bytes own_need(OpId v) const { return output_bytes(graph_, v) + graph_.op(v).temporary; }
  /// The workspace of `v` that `d` does not hold already.
  Bytes more_workspace(OpId v, DeviceId d) const {
    return std::max(Bytes{}, graph_.op(v).temporary - devices_[d].room.workspace);
  }
  /// Whether every device has room for all there is, so that memory never decides.
  bool all_fits_anywhere() const {
    Bytes all;
    for (const OpId v : graph_.ops()) all += footprint(graph_, v);
    for (const EdgeId e : graph_.edges()) all += copied(graph_.edge(e).tensor);  // copies
    if (options_.reserve) all = 2.0 * all;
    return std::ranges::all_of(devices_,
                               [&](const DeviceState& dev) { return all <= dev.room.limit; });
  }
  bool grouped(OpId v) const { return graph_.op(v).group != no_group; }
  Group& group_of(OpId v) { return groups_[index(graph_.op(v).group)]; }
  const Group& group_of(OpId v) const { return groups_[index(graph_.op(v).group)]; }
  Bytes weights_to_place(OpId v) const {
    if (!grouped(v)) return graph_.op(v).persistent;
    return ops_[v].pinned ? Bytes{} : group_of(v).weights;
  }

  /// Whether what `edge` carries needs no transfer to `d`.
  bool is_there(const Edge& edge, DeviceId d) const {
    return ops_[edge.src].device == d || graph_.instant(edge.tensor);
  }

  std::uint32_t find_copy(TensorId t, DeviceId d) const {
    if (!cached_) return no_copy;
    std::uint32_t c = first_copy_[t];
    while (c != no_copy && copies_[c].device != d) c = copies_[c].next;
    return c;
  }

  /// The in-edges of `v` that would have to be sent to `d`, in the order they would be.
  const std::vector<EdgeId>& to_send(OpId v, DeviceId d) {
    to_send_.clear();
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      if (!is_there(edge, d) && find_copy(edge.tensor, d) == no_copy) to_send_.push_back(e);
    }
    if (to_send_.size() > 1) {
      const auto turn = [&](EdgeId e) {
        return std::pair(ops_[graph_.edge(e).src].end, graph_.edge(e).tensor);
      };
      if (!std::ranges::is_sorted(to_send_, {}, turn)) std::ranges::sort(to_send_, {}, turn);
    }
    return to_send_;
  }

  Duration transfer(TensorId t, DeviceId src, DeviceId dst) const {
    return alike_links_ ? transfer_[t] : costs_.transfer(t, src, dst);
  }

  /// When all inputs of `v` would be on `d`. Every transfer involves d's receiving channel, so but
  /// for staged ones its clock alone carries over from one to the next. `book` commits.
  TimePoint inputs_at(OpId v, DeviceId d, bool book) {
    TimePoint ready{};
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      if (is_there(edge, d)) {
        ready = std::max(ready, ops_[edge.src].end);
      } else if (const auto c = find_copy(edge.tensor, d); c != no_copy) {
        ready = std::max(ready, copies_[c].arrival);
        if (book && copies_[c].readers++ == 0) devices_[d].room.take(copied(edge.tensor));
      }
    }
    const bool limited = channels_.limited();
    TimePoint receiver{};
    if (limited) receiver = clock_[channels_.receiving(d)];
    sender_clocks_.clear();
    for (const EdgeId e : to_send(v, d)) {
      const Edge& edge = graph_.edge(e);
      const DeviceId src = ops_[edge.src].device;
      TimePoint start = ops_[edge.src].end, left, end;
      if (channels_.staged()) {
        const Stages s = stages(costs_, edge.tensor, src, d);
        TimePoint& sender = sender_clock(src);
        left = sender = std::max(start + s.latency, sender) + s.out;
        end = std::max(left, receiver) + s.in;
      } else {
        if (limited) start = std::max({start, receiver, clock_[channels_.sending(src)]});
        left = end = start + transfer(edge.tensor, src, d);
      }
      if (limited) receiver = end;
      ready = std::max(ready, end);
      if (!book) continue;
      if (limited) {
        clock_[channels_.sending(src)] = left;
        clock_[channels_.receiving(d)] = end;
      }
      copies_.push_back({end, d, 1, first_copy_[edge.tensor]});
      first_copy_[edge.tensor] = static_cast<std::uint32_t>(copies_.size() - 1);
      if (cached_) ask_readers(edge.tensor, d);
      devices_[d].room.take(copied(edge.tensor));
    }
    return ready;
  }

  /// The outgoing channel of `src` within one estimate.
  TimePoint& sender_clock(DeviceId src) {
    auto it = std::ranges::find(sender_clocks_, src, &std::pair<DeviceId, TimePoint>::first);
    if (it == sender_clocks_.end())
      it = sender_clocks_.insert(it, {src, clock_[channels_.sending(src)]});
    return it->second;
  }

  /// What `v` would add to what is live on `d`.
  Bytes live_need(OpId v, DeviceId d) {
    Bytes need = output_bytes(graph_, v) + more_workspace(v, d);
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      if (ops_[edge.src].device == d) continue;
      const std::uint32_t c = find_copy(edge.tensor, d);
      if (c == no_copy || copies_[c].readers == 0) need += copied(edge.tensor);
    }
    return need;
  }

  /// What must be free beside what is live on `d` for `v` to start there.
  Bytes wanted(OpId v, DeviceId d) {
    const Room& room = devices_[d].room;
    const Bytes live = live_need(v, d) + room.reserved;
    if (!grouped(v)) return live + caution_.spare * room.largest;
    const Group& group = group_of(v);
    if (ops_[v].pinned) {
      if (caution_.keep_all) return live - output_bytes(graph_, v);
      return options_.reserve ? live - group.most : live;
    }
    const Bytes whole = caution_.keep_all ? group.outputs + more_workspace(v, d) : group.most;
    return std::max(live, whole + room.reserved) +
           caution_.spare * std::max(room.largest, group.largest);
  }

  bool has_room(OpId v, DeviceId d) {
    return ample_ || devices_[d].room.fits(weights_to_place(v), wanted(v, d));
  }

  bool may_go(OpId v, DeviceId d) const {
    return !ops_[v].scheduled && (!ops_[v].pinned || ops_[v].device == d);
  }

  /// The devices that have an input of `v`, or a copy of one, are asked at once. Any other must
  /// have every input sent, which takes until lonely_at(v) at least: till then none of them is
  /// asked.
  void make_ready(OpId v) {
    if (options_.variant == Variant::pytorch) ops_[v].turn = became_ready_++;
    if (!options_.favourite.empty()) ready_.push_back(v);
    first_.push({ranked(v)});
    if (ops_[v].pinned) return ask(ops_[v].device, v);
    if (!alike_links_ || cluster_.num_devices() <= few_devices) {
      for (const DeviceId d : cluster_.devices()) ask(d, v);
      return;
    }
    holders_.clear();
    for (const EdgeId e : graph_.in_edges(v)) {
      const TensorId t = graph_.edge(e).tensor;
      holders_.push_back(ops_[graph_.edge(e).src].device);
      if (!cached_) continue;
      for (std::uint32_t c = first_copy_[t]; c != no_copy; c = copies_[c].next)
        holders_.push_back(copies_[c].device);
    }
    std::ranges::sort(holders_);
    const auto rest = std::ranges::unique(holders_);
    holders_.erase(rest.begin(), rest.end());
    for (const DeviceId d : holders_) ask(d, v);
    lonely_.push({lonely_at(v), v});
  }

  void ask(DeviceId d, OpId v) { devices_[d].later.push({inputs_at(v, d, false), v}); }

  /// Before when `v` cannot start on a device that has none of its inputs, whatever else is sent:
  /// channels only fill up.
  TimePoint lonely_at(OpId v) const {
    TimePoint at = now_;
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      if (graph_.instant(edge.tensor)) continue;
      at = std::max(at, ops_[edge.src].end + transfer_[edge.tensor]);
    }
    return at;
  }

  /// The ready ops that read `t` may now start on `d` earlier than thought.
  void ask_readers(TensorId t, DeviceId d) {
    for (const EdgeId e : graph_.readers(t)) {
      const OpId v = graph_.edge(e).dst;
      if (ops_[v].unmet == 0 && !ops_[v].scheduled && !ops_[v].pinned)
        devices_[d].later.push({now_, v});
    }
  }

  /// Moves what can start by now from `later` to `soon`, re-estimating what comes up.
  void advance(DeviceId d) {
    DeviceState& dev = devices_[d];
    for (; dev.asked < asked_of_all_.size(); ++dev.asked) {
      const OpId v = asked_of_all_[dev.asked];
      if (!may_go(v, d)) continue;
      const TimePoint at = inputs_at(v, d, false);
      if (at <= now_)
        dev.soon.push(ranked(v));
      else
        dev.later.push({at, v});
    }
    while (!dev.later.empty() && dev.later.top().at <= now_) {
      const OpId v = dev.later.top().op;
      dev.later.pop();
      if (!may_go(v, d)) continue;
      const TimePoint at = inputs_at(v, d, false);
      if (at <= now_)
        dev.soon.push(ranked(v));
      else
        dev.later.push({at, v});
    }
  }

  /// The first op, as ranked, that could start on the idle device `d` now.
  OpId first_startable(DeviceId d) {
    DeviceState& dev = devices_[d];
    advance(d);
    while (!dev.soon.empty()) {
      const OpId v = dev.soon.top().op;
      if (may_go(v, d)) {
        const TimePoint at = inputs_at(v, d, false);
        if (at <= now_ && has_room(v, d)) return v;
        if (at > now_)
          dev.later.push({at, v});
        else if (dev.room.fits(weights_to_place(v), Bytes{}))
          dev.blocked.push({weights_to_place(v) + wanted(v, d), v});
        // else it never will: weights and their peak do not shrink
      }
      dev.soon.pop();
    }
    return no_op;
  }

  Choice choose(DeviceId d) {
    if (const OpId f = awaited(d); f != no_op) return choose_awake(d, f);
    const OpId v = first_startable(d);
    return {v, devices_[d].later.empty() ? never : devices_[d].later.top().at};
  }

  /// The favourite child that the idle device `d` waits for, if it does.
  OpId awaited(DeviceId d) {
    const OpId last = devices_[d].last;
    if (options_.favourite.empty() || last == no_op) return no_op;
    const OpId f = options_.favourite[last];
    if (f == no_op || ops_[f].unmet > 0 || !may_go(f, d) || !has_room(f, d)) return no_op;
    const TimePoint here = start_at(f, d);
    for (const DeviceId other : cluster_.devices()) {
      if (other != d && may_go(f, other) && start_at(f, other) < here && has_room(f, other))
        return no_op;
    }
    return f;
  }

  TimePoint start_at(OpId v, DeviceId d) {
    return std::max({inputs_at(v, d, false), devices_[d].free_at, now_});
  }

  /// `d` waits for its favourite `f`, unless something is urgent.
  Choice choose_awake(DeviceId d, OpId f) {
    OpId most_urgent = no_op;
    TimePoint urgent = never;
    // Where every device has room, an op that may go anywhere is not urgent before the last running
    // op has ended, and that is an instant anyway.
    const bool only_pinned = ample_ && !ends_.empty();
    for (const OpId v : ready_) {
      if (only_pinned && !ops_[v].pinned) continue;
      if (!may_go(v, d) || !has_room(v, d)) continue;
      TimePoint latest{};
      for (const DeviceId other : cluster_.devices()) {
        if (latest > urgent) break;
        if (other == d || (may_go(v, other) && has_room(v, other)))
          latest = std::max(latest, start_at(v, other));
      }
      if (std::pair(latest, ranked(v)) < std::pair(urgent, ranked(most_urgent))) {
        urgent = latest;
        most_urgent = v;
      }
    }
    if (urgent <= now_) return {most_urgent, never};
    const TimePoint at = start_at(f, d);
    if (at <= now_) return {f, never};
    return {no_op, std::min(at, urgent)};
  }

  /// Starts the best (op, device) that can start now; if there is none, says false and sets
  /// ask_again_.
  bool start_one() {
    OpId best = no_op;
    DeviceId where{};
    ask_again_ = never;
    for (; !lonely_.empty() && lonely_.top().at <= now_; lonely_.pop())
      if (!ops_[lonely_.top().op].scheduled) asked_of_all_.push_back(lonely_.top().op);
    for (const DeviceId d : cluster_.devices()) {
      if (devices_[d].running != no_op) continue;
      const Choice choice = choose(d);
      const OpId v = choice.op;
      ask_again_ = std::min(ask_again_, choice.ask_at);
      if (v == no_op || ranked(v) > ranked(best)) continue;
      if (v == best && costs_.compute(v, d) >= costs_.compute(v, where)) continue;
      best = v;
      where = d;
      if (alike_ && ranked(v) == first_ready()) break;  // no device has a better
    }
    if (best == no_op) {
      if (!lonely_.empty()) ask_again_ = std::min(ask_again_, lonely_.top().at);
      return false;
    }
    start(best, where);
    return true;
  }

  Ranked first_ready() {
    while (ops_[first_.top().op].scheduled) first_.pop();
    return first_.top();
  }

  void start(OpId v, DeviceId d) {
    DeviceState& dev = devices_[d];
    OpState& op = ops_[v];
    dev.room.weights += weights_to_place(v);
    if (grouped(v) && !op.pinned) {
      for (const OpId member : graph_.members(graph_.op(v).group)) {
        ops_[member].pinned = true;
        ops_[member].device = d;
        // One that found no room for the group's weights has room for itself now.
        if (ops_[member].unmet == 0 && member != v) dev.later.push({now_, member});
      }
      const Group& group = group_of(v);
      if (caution_.keep_all)
        dev.room.reserved += group.outputs;
      else if (options_.reserve)
        dev.room.reserved += group.most;
      dev.room.largest = std::max(dev.room.largest, group.largest);
    }
    op.device = d;
    const TimePoint inputs = inputs_at(v, d, true);
    op.scheduled = true;
    dev.room.take(output_bytes(graph_, v) + more_workspace(v, d));
    if (caution_.keep_all)
      dev.room.workspace = std::max(dev.room.workspace, graph_.op(v).temporary);
    if (grouped(v)) {
      const bool last = --group_of(v).to_schedule == 0;
      if (caution_.keep_all)
        dev.room.reserved -= output_bytes(graph_, v);
      else if (options_.reserve && last)
        dev.room.reserved -= group_of(v).most;
    }
    op.end = std::max({now_, dev.free_at, inputs}) + costs_.compute(v, d);
    dev.free_at = op.end;
    dev.running = dev.last = v;
    ends_.push({op.end, d});
    order_.push_back(v);
    if (!options_.favourite.empty()) std::erase(ready_, v);
  }

  void end_op(DeviceId d) {
    DeviceState& dev = devices_[d];
    const OpId v = dev.running;
    dev.running = no_op;
    if (!caution_.keep_all) free_after(v, d);
    for (const EdgeId e : graph_.out_edges(v)) {
      const OpId reader = graph_.edge(e).dst;
      if (--ops_[reader].unmet == 0) make_ready(reader);
    }
  }

  void free_after(OpId v, DeviceId d) {
    free(d, graph_.op(v).temporary);
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      const DeviceId src = ops_[edge.src].device;
      if (src != d) {
        const std::uint32_t c = find_copy(edge.tensor, d);
        if (c == no_copy || --copies_[c].readers == 0) free(d, copied(edge.tensor));
      }
      if (--readers_left_[edge.tensor] == 0) free(src, held(edge.tensor));
    }
    for (const TensorId t : graph_.outputs(v))
      if (readers_left_[t] == 0) free(d, held(t));
  }

  void free(DeviceId d, Bytes size) {
    if (size == Bytes{}) return;
    DeviceState& dev = devices_[d];
    dev.room.live -= size;
    // Those that now may fit are asked again.
    while (!dev.blocked.empty() &&
           dev.room.weights + dev.room.live + dev.blocked.top().need <= dev.room.limit) {
      dev.later.push({now_, dev.blocked.top().op});
      dev.blocked.pop();
    }
  }

  /// What an op needs can shrink while it is blocked, where a copy of its input arrives for
  /// another. False if nothing was scheduled since the last time of asking.
  bool ask_blocked_again() {
    if (asked_at_ == order_.size()) return false;
    asked_at_ = order_.size();
    for (DeviceState& dev : devices_) {
      for (; !dev.blocked.empty(); dev.blocked.pop()) dev.later.push({now_, dev.blocked.top().op});
    }
    return true;
  }

  const OpGraph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  const ListSchedulerOptions& options_;
  const Caution caution_;
  const bool cached_;
  bool ample_ = false;
  bool alike_ = false;                     // an op takes the same time on every device
  bool alike_links_ = false;               // a tensor takes the same time between any two devices
  IdVector<TensorId, Duration> transfer_;  // if alike_links_
  const ChannelMap channels_;
  std::vector<TimePoint> clock_;  // [num_channels], end of the last booking
  IdVector<DeviceId, DeviceState> devices_;
  IdVector<OpId, OpState> ops_;
  IdVector<TensorId, std::uint32_t> readers_left_;  // that have not ended
  IdVector<TensorId, std::uint32_t> first_copy_;    // into copies_, a list
  std::vector<Copy> copies_;
  std::vector<Group> groups_;       // by GroupId; [0]: of ops without one, not asked
  MinHeap<Ranked> first_;           // ready ops, and some that were
  std::vector<DeviceId> holders_;   // of inputs of an op, or copies of them
  MinHeap<Candidate> lonely_;       // ready ops that other devices than those with an input...
  std::vector<OpId> asked_of_all_;  // ...may start, and those whose time for it has come
  std::vector<OpId> ready_;         // not scheduled; only m-SCT walks it
  MinHeap<std::pair<TimePoint, DeviceId>> ends_;  // of the running ops
  std::vector<OpId> order_;                       // as scheduled
  std::uint32_t became_ready_ = 0;
  std::vector<EdgeId> to_send_;
  std::vector<std::pair<DeviceId, TimePoint>> sender_clocks_;  // of one estimate
  TimePoint now_{};
  TimePoint ask_again_ = never;             // when an idle device may have something to start
  std::size_t asked_at_ = ~std::size_t{0};  // ops scheduled when the blocked were last asked
};

std::string named(const Caution& caution) {
  if (caution.keep_all) return "nothing freed";
  std::string text = fmt::format("{:.0f} % of the memory", caution.memory_share * 100);
  if (caution.spare > 0)
    text += fmt::format(", {} x the largest member's need kept free", caution.spare);
  return text;
}

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
  for (const Caution& caution : cautions) {
    ListSchedule attempt(problem, options, caution);
    std::optional<Placement> placement = attempt.run();
    const std::string failure = placement ? flaw(problem, *placement) : attempt.stuck();
    if (placement && failure.empty()) {
      if (!first_failure.empty()) {
        placement->detail =
            fmt::format("fallback: placed with {}; at first: {}", named(caution), first_failure);
      }
      placement->facts["attempts"] = static_cast<double>(&caution - cautions.data() + 1);
      return *std::move(placement);
    }
    if (first_failure.empty()) first_failure = failure;
  }
  throw InfeasibleError(fmt::format("{}: {}{}", name, first_failure,
                                    cautions.size() > 1 ? "; nor in a more cautious way" : ""));
}

}  // namespace baechi
