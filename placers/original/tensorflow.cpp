/// The original's m_etf and m_sct on TensorFlow: transfers queue, groups stay together.

#include "placers/original/original.h"

namespace baechi::original {

/// The bytes in use per device, and the bytes reserved per group. All but fits() throw Stop where
/// the original asserts.
class PlacerMemory {
 public:
  PlacerMemory(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
               const PlacerOptions& options);

  Bytes need(OpId v) const { return graph_.op(v).temporary + graph_.op(v).outputs; }
  /// Bytes checked before a group is placed: its persistent bytes; with reservation also the
  /// largest temporary and outputs. Q4: without reservation only the persistent bytes.
  Bytes need(const Group& group) const;
  Bytes available(DeviceId d) const { return limits_[d] - used_[d]; }
  /// Whether `v` could start on `d` now, with the bytes reserved there for its group.
  bool fits(OpId v, DeviceId d) const {
    return need(v) <= available(d) + reserved_left(graph_.op(v).group, d);
  }

  void reserve(GroupId g, const Group& group, DeviceId d);
  /// Starts `v` on `d`: charges outputs and temporary, then frees temporary.
  void start(OpId v, DeviceId d);
  /// The last reader of `u`, which ran on `d`, has started.
  void release_outputs(OpId u, DeviceId d);
  /// Counts a started op of the group on `d`; after the last one its reservation ends.
  void started(GroupId g, DeviceId d);

  const IdVector<DeviceId, Bytes>& used() const { return used_; }
  const IdVector<DeviceId, Bytes>& peak() const { return peak_; }

 private:
  struct Reservation {
    DeviceId device = no_device;  // none: nothing is reserved
    Bytes left{};
    Bytes whole{};
    std::size_t not_started = 0;
  };
  Bytes reserved_left(GroupId g, DeviceId d) const {
    return reserving_ && reservations_[g].device == d ? reservations_[g].left : Bytes{};
  }
  void allocate(Bytes size, OpId v, DeviceId d);
  void release(Bytes size, OpId v, DeviceId d);
  void allocate_raw(Bytes size, OpId v, DeviceId d);
  void release_raw(Bytes size, OpId v, DeviceId d);

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  bool reserving_;
  IdVector<DeviceId, Bytes> used_;
  IdVector<DeviceId, Bytes> peak_;
  IdVector<GroupId, Reservation> reservations_;  // empty unless reserving
};

PlacerMemory::PlacerMemory(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                           const PlacerOptions& options)
    : graph_(graph),
      limits_(limits),
      reserving_(options.reserve),
      used_(limits.size()),
      peak_(limits.size()) {
  if (reserving_) reservations_.assign(graph.num_groups() + 1, {});
}

Bytes PlacerMemory::need(const Group& group) const {
  if (!reserving_) return group.persistent_sum;
  return group.temporary_max + group.persistent_sum + group.outputs_max;
}

void PlacerMemory::reserve(GroupId g, const Group& group, DeviceId d) {
  const Bytes size = need(group);
  reservations_[g] = {
      .device = d, .left = size, .whole = size, .not_started = group.members.size()};
  allocate_raw(size, group.members.front(), d);
}

void PlacerMemory::start(OpId v, DeviceId d) {
  const Graph::Op& op = graph_.op(v);
  allocate(op.outputs, v, d);
  allocate(op.temporary, v, d);
  release(op.temporary, v, d);
}

/// Q6: called when the last reader starts. Q5: frees outputs less persistent bytes, which were
/// never charged as such; where the outputs do not contain them the release is negative: a charge
/// that ignores limit and peak.
void PlacerMemory::release_outputs(OpId u, DeviceId d) {
  release(graph_.op(u).outputs - graph_.op(u).persistent, u, d);
}

void PlacerMemory::started(GroupId g, DeviceId d) {
  if (!reserving_) return;
  Reservation& r = reservations_[g];
  if (--r.not_started > 0) return;
  release_raw(r.left, no_op, d);
  r = {};
}

void PlacerMemory::allocate(Bytes size, OpId v, DeviceId d) {
  if (size == Bytes{}) return;
  if (reserving_) {
    Reservation& r = reservations_[graph_.op(v).group];
    if (r.device != d)  // Q15: nothing was reserved, because groups are not placed as a whole
      throw Stop{{.type = "KeyError",
                  .where = "allocate_memory",
                  .file = "m_etf.py",
                  .message = "",
                  .op = v}};
    r.left -= size;
    if (r.left >= Bytes{}) return;
    size = Bytes{} - r.left;
    r.left = {};
  }
  allocate_raw(size, v, d);
}

void PlacerMemory::release(Bytes size, OpId v, DeviceId d) {
  if (size == Bytes{}) return;
  const GroupId g = graph_.op(v).group;
  if (reserving_ && reservations_[g].device == d) {
    Reservation& r = reservations_[g];
    r.left += size;
    if (r.left <= r.whole) return;
    size = r.left - r.whole;
    r.left = r.whole;
  }
  release_raw(size, v, d);
}

void PlacerMemory::allocate_raw(Bytes size, OpId v, DeviceId d) {
  if (available(d) < size)
    throw Stop{{.type = "AssertionError",
                .where = "_allocate_memory_raw",
                .file = "m_etf.py",
                .message = "",
                .op = v}};
  used_[d] += size;
  peak_[d] = std::max(peak_[d], used_[d]);
}

void PlacerMemory::release_raw(Bytes size, OpId v, DeviceId d) {
  used_[d] -= size;
  if (used_[d] < Bytes{})
    throw Stop{{.type = "AssertionError",
                .where = "_deallocate_memory_raw",
                .file = "m_etf.py",
                .message = "",
                .op = v}};
}

namespace {

std::uint64_t bit(DeviceId d) { return std::uint64_t{1} << (index(d) % 64); }

class TensorFlowScheduler final : public Scheduler {
 public:
  TensorFlowScheduler(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                      const PlacerOptions& options, std::span<const std::uint32_t> favourites,
                      Log* log)
      : Scheduler(graph, limits, options, favourites, log),
        memory_(graph, limits, options),
        channels_(limits.size()),
        sent_(graph.num_tensors() * limits.size()) {
    if (options.colocation) groups_ = groups_of(graph);
    for (const OpId v : graph.ops())
      unread_.push_back(static_cast<std::uint32_t>(graph.out_edges(v).size()));
  }

 private:
  bool fits(OpId v, DeviceId d) const override { return memory_.fits(v, d); }
  ReadyOps::Estimate estimate(OpId v, DeviceId d) const override;
  void exclude_devices(std::size_t row) override;
  TimePoint commit(OpId v, DeviceId d, TimePoint estimated) override;
  void started(OpId v, DeviceId d) override {
    if (options_.colocation) memory_.started(graph_.op(v).group, d);
  }
  const IdVector<DeviceId, Bytes>& used() const override { return memory_.used(); }
  const IdVector<DeviceId, Bytes>& peak() const override { return memory_.peak(); }

  TimePoint book_inputs(OpId v, DeviceId d);
  void book_edge(EdgeId e, DeviceId d);
  void place_with_group(OpId v, DeviceId d);
  void place(OpId v, DeviceId d);

  /// The transfer of `t` to `d`, if there was one: a received tensor is never dropped.
  std::optional<Booking>& sent(TensorId t, DeviceId d) {
    return sent_[index(t) * limits_.size() + index(d)];
  }
  const std::optional<Booking>& sent(TensorId t, DeviceId d) const {
    return sent_[index(t) * limits_.size() + index(d)];
  }

  IdVector<GroupId, Group> groups_;  // empty without colocation
  PlacerMemory memory_;
  Channels channels_;
  std::vector<std::optional<Booking>> sent_;  // [num_tensors, num_devices]
  IdVector<OpId, std::uint32_t> unread_;      // out-edges whose dst has not started
};

/// Removes the times on devices on which the group of the op does not fit.
void TensorFlowScheduler::exclude_devices(std::size_t row) {
  if (!options_.colocation) return;
  const Bytes need = memory_.need(groups_[graph_.op(ready_.op(row)).group]);
  for (const DeviceId d : devices()) {
    if (need > memory_.available(d)) ready_.time(row, d) = ReadyOps::never;
  }
}

/// Q9: estimates every edge as if no other used the channels, with its tensors in one piece.
ReadyOps::Estimate TensorFlowScheduler::estimate(OpId v, DeviceId d) const {
  ReadyOps::Estimate estimate{.ready = TimePoint{}, .channels = 0};
  for (const EdgeId e : graph_.in_edges(v)) {
    const Graph::Edge& edge = graph_.edge(e);
    const DeviceId from = result_.device[edge.src];
    if (from == d) {
      estimate.ready = std::max(estimate.ready, end_[edge.src]);
      continue;
    }
    Duration time{};
    bool sends = false;
    for (const Graph::Send& s : graph_.sends(e)) {
      if (const auto& booking = sent(s.tensor, d)) {
        estimate.ready = std::max(estimate.ready, booking->receive_end);
      } else {
        time += s.time;
        sends = true;
      }
    }
    if (!sends) continue;
    estimate.ready = std::max(estimate.ready, channels_.estimate(from, d, end_[edge.src], time));
    estimate.channels |= bit(from) | bit(d);
  }
  return estimate;
}

/// Q8: the inputs are sent only when their reader starts, although they perhaps could have been
/// sent long before; so the estimate is not used.
TimePoint TensorFlowScheduler::commit(OpId v, DeviceId d, TimePoint /*estimated*/) {
  const TimePoint inputs = book_inputs(v, d);
  if (result_.device[v] == no_device) {
    if (options_.colocation) {
      place_with_group(v, d);
    } else {
      place(v, d);
    }
  }
  memory_.start(v, d);
  for (const EdgeId e : graph_.in_edges(v)) {
    const OpId u = graph_.edge(e).src;
    if (--unread_[u] == 0) memory_.release_outputs(u, result_.device[u]);
  }
  return inputs;
}

TimePoint TensorFlowScheduler::book_inputs(OpId v, DeviceId d) {
  TimePoint last{};
  for (const EdgeId e : graph_.in_edges(v)) {
    const OpId src = graph_.edge(e).src;
    if (result_.device[src] == d) {
      last = std::max(last, end_[src]);
      continue;
    }
    book_edge(e, d);
    for (const Graph::Send& s : graph_.sends(e))
      last = std::max(last, sent(s.tensor, d)->receive_end);
  }
  return last;
}

/// First the tensors that `d` already holds, which only changes the log, then the others.
void TensorFlowScheduler::book_edge(EdgeId e, DeviceId d) {
  const Graph::Edge& edge = graph_.edge(e);
  const DeviceId from = result_.device[edge.src];
  const auto tell = [&](const Graph::Send& s, bool cached) {
    if (log_ == nullptr) return;
    log_->on_transfer({s, edge.src, edge.dst, from, d, cached, *sent(s.tensor, d)});
  };
  for (const Graph::Send& s : graph_.sends(e)) {
    if (sent(s.tensor, d)) tell(s, true);
  }
  for (const Graph::Send& s : graph_.sends(e)) {
    auto& booking = sent(s.tensor, d);
    if (booking) continue;
    booking = channels_.book(from, d, end_[edge.src], s.time);
    moved_channels_ |= bit(from) | bit(d);
    tell(s, false);
  }
}

void TensorFlowScheduler::place_with_group(OpId v, DeviceId d) {
  const GroupId g = graph_.op(v).group;
  if (options_.reserve) memory_.reserve(g, groups_[g], d);
  for (const OpId member : groups_[g].members) place(member, d);
}

/// Q4: a group is accepted by its persistent bytes alone; each member must fit by need(v).
void TensorFlowScheduler::place(OpId v, DeviceId d) {
  if (!memory_.fits(v, d))
    throw Stop{
        {.type = "AssertionError",
         .where = "place_op",
         .file = "m_etf.py",
         .message = fmt::format("Cannot place op {} on dev {}. required={}, avail={}", index(v),
                                index(d), memory_.need(v).count, memory_.available(d).count),
         .op = v}};
  result_.device[v] = d;
}

}  // namespace

std::unique_ptr<Scheduler> tensorflow_scheduler(const Graph& graph,
                                                const IdVector<DeviceId, Bytes>& limits,
                                                const PlacerOptions& options,
                                                std::span<const std::uint32_t> favourites,
                                                Log* log) {
  return std::make_unique<TensorFlowScheduler>(graph, limits, options, favourites, log);
}

}  // namespace baechi::original
