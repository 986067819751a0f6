#include "placers/list/schedule.h"

#include "placers/list/partial_schedule.h"

namespace baechi::list {
namespace {

/// The list scheduling loop: book the best (op, device) of the ready ops, or go to the next time.
class Scheduler {
 public:
  Scheduler(const Problem& p, const IdVector<OpId, OpId>& favourite, Variant variant,
            MemoryMargin margin)
      : graph_(p.graph),
        schedule_(p, variant == Variant::pytorch ? Transfers::parallel : p.engine.transfers, margin,
                  variant == Variant::pytorch),
        favourites_(schedule_, favourite),
        candidates_(schedule_.uniform ? uniform_devices(schedule_, favourites_)
                                      : each_device(schedule_, favourites_)) {
    order_.reserve(graph_.num_ops());
  }

  Schedule run() {
    for (const OpId v : graph_.ops()) {
      schedule_.ops[v].inputs_missing = static_cast<std::uint32_t>(graph_.in_edges(v).size());
      if (schedule_.is_ready(v)) make_ready(v);
    }
    while (true) {
      while (const std::optional<Choice> best = candidates_->best()) start(best->op, best->device);
      const TimePoint next = next_instant();
      if (next == never) break;
      schedule_.now = next;
      for (; !ends_.empty() && ends_.top().first <= next; ends_.pop()) end(ends_.top().second);
    }
    const bool ample = schedule_.memory.ample();
    if (order_.size() < graph_.num_ops()) return {{}, stuck(), ample};
    return {placement(), {}, ample};
  }

 private:
  TimePoint next_instant() const {
    const TimePoint retry_at = candidates_->retry_at();
    return ends_.empty() ? retry_at : std::min(retry_at, ends_.top().first);
  }

  void make_ready(OpId v) {
    schedule_.transfers.find_inputs(v);
    if (schedule_.by_turn) schedule_.ops[v].turn = became_ready_++;
    favourites_.ready(v);
    candidates_->ready(v);
  }

  void start(OpId v, DeviceId d) {
    const bool places_group = graph_.op(v).group != no_group && schedule_.ops[v].home == any_device;
    if (places_group) {
      for (const OpId member : graph_.members(graph_.op(v).group)) schedule_.ops[member].home = d;
    }
    schedule_.ops[v].home = started;
    const TimePoint end = book(v, d);
    schedule_.devices[d] = {.running = v, .last = v, .free_at = end};
    ends_.emplace(end, d);
    order_.push_back(v);
    ++schedule_.num_started;
    ++schedule_.num_running;
    favourites_.started(v);
    candidates_->started({v, d, places_group, copied_});
  }

  /// Books the transfers and the memory of `v` on `d`; returns the time when `v` ends there.
  TimePoint book(OpId v, DeviceId d) {
    BookedTransfers& transfers = schedule_.transfers;
    const bool copies_matter =
        transfers.cached() && (transfers.limited() || !schedule_.memory.ample());
    copied_.clear();
    const TimePoint inputs = transfers.book(v, d, [&](TensorId t) {
      if (copies_matter) copied_.push_back(t);
    });
    schedule_.memory.start(v, d);
    const TimePoint end = std::max({schedule_.now, schedule_.devices[d].free_at, inputs}) +
                          schedule_.costs.compute(v, d);
    transfers.schedule(v, d, end);
    return end;
  }

  void end(DeviceId d) {
    const OpId v = std::exchange(schedule_.devices[d].running, no_op);
    --schedule_.num_running;
    schedule_.memory.end(v, d);
    candidates_->ended(v, d);
    for (const EdgeId e : graph_.out_edges(v)) {
      const OpId reader = graph_.edge(e).dst;
      if (--schedule_.ops[reader].inputs_missing == 0) make_ready(reader);
    }
  }

  Placement placement() const {
    Placement result{.device = IdVector<OpId, DeviceId>(graph_.num_ops()),
                     .priority = IdVector<OpId, std::int32_t>(graph_.num_ops())};
    TimePoint last{};  // `now` may be later, since stale candidates are visited after the last end
    for (const OpId v : graph_.ops()) {
      result.device[v] = schedule_.transfers.device(v);
      last = std::max(last, schedule_.transfers.end(v));
    }
    auto priority = static_cast<std::int32_t>(order_.size());
    for (const OpId v : order_) result.priority[v] = priority--;
    result.facts["planned_step_us"] = to_us(last.time_since_epoch());
    return result;
  }

  /// Bytes of the inputs of `v` that other devices produce, as copies on `d`.
  Bytes copies_to(OpId v, DeviceId d) const {
    Bytes sum{};
    TensorId last{~std::uint32_t{0}};
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      if (std::exchange(last, edge.tensor) != edge.tensor &&
          schedule_.transfers.device(edge.src) != d)
        sum += graph_.tensor(edge.tensor).copied();
    }
    return sum;
  }

  std::string stuck() const {
    const BookedMemory& memory = schedule_.memory;
    for (const OpId v : graph_.ops()) {
      if (schedule_.ops[v].home == started || !schedule_.is_ready(v)) continue;
      const bool pinned = schedule_.ops[v].home != any_device;
      DeviceId roomiest = pinned ? schedule_.ops[v].home : DeviceId{0};
      for (const DeviceId d : schedule_.cluster.devices()) {
        if (!pinned && memory.left(d) > memory.left(roomiest)) roomiest = d;
      }
      return fmt::format(
          "stuck with {} of {} ops placed: op '{}' needs {} of weights, {} while it runs and up to "
          "{} for copies of its inputs; {}{} has {} left above its peak",
          order_.size(), graph_.num_ops(), graph_.name(v), to_text(memory.weights_to_place(v)),
          to_text(memory.own_need(v)), to_text(copies_to(v, roomiest)),
          schedule_.cluster.device(roomiest).name,
          pinned ? ", where its group is," : ", the one with most memory left,",
          to_text(memory.left(roomiest)));
    }
    return "stuck";
  }

  const OpGraph& graph_;
  PartialSchedule schedule_;
  Favourites favourites_;
  std::unique_ptr<Candidates> candidates_;
  MinHeap<std::pair<TimePoint, DeviceId>> ends_;  // ends of the running ops
  std::vector<OpId> order_;                       // ops in the order of their starts
  std::vector<TensorId> copied_;                  // inputs sent for the op that was booked last
  std::uint32_t became_ready_ = 0;                // number of ops
};

/// The margin as text, for the detail of a placement.
std::string described(const MemoryMargin& margin) {
  if (margin.keep_all) return "nothing freed";
  std::string text = fmt::format("{:.0f} % of the memory", margin.memory_share * 100);
  if (margin.spare > 0)
    text += fmt::format(", {} x the largest member's need kept free", margin.spare);
  return text;
}

std::span<const MemoryMargin> margins(Variant variant) {
  static constexpr MemoryMargin all[] = {
      {}, {.spare = 1}, {.spare = 2}, {0.9, 2}, {.keep_all = true}};
  const std::span<const MemoryMargin> any = all;
  return variant == Variant::pytorch ? any.last(1) : any;
}

}  // namespace

Schedule schedule(const Problem& problem, const IdVector<OpId, OpId>& favourite, Variant variant,
                  MemoryMargin margin) {
  return Scheduler(problem, favourite, variant, margin).run();
}

PlaceOptions read_place_options(Options& options) {
  PlaceOptions read{.variant = read_variant(options)};
  read.reserve = options.get("reserve", false,
                             "keep room for a group's most demanding member until all are placed");
  return read;
}

Placement place(const Problem& problem, const PlaceOptions& options, std::string_view name) {
  const std::span<const MemoryMargin> tried = margins(options.variant);
  std::string first_failure;
  double attempts = 0;
  for (MemoryMargin margin : tried) {
    margin.reserve = options.reserve;
    ++attempts;
    auto [placement, failure, memory_ample] =
        schedule(problem, options.favourite, options.variant, margin);
    if (placement && !memory_ample) failure = out_of_memory(problem, *placement);
    if (failure.empty()) {
      if (!first_failure.empty()) {
        placement->detail =
            fmt::format("placed with {}; at first: {}", described(margin), first_failure);
      }
      placement->facts["attempts"] = attempts;
      return *std::move(placement);
    }
    if (first_failure.empty()) first_failure = failure;
  }
  throw InfeasibleError(fmt::format("{}: {}{}", name, first_failure,
                                    tried.size() > 1 ? "; nor with larger memory margins" : ""));
}

}  // namespace baechi::list
