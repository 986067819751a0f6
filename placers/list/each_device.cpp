#include "placers/list/partial_schedule.h"

namespace baechi::list {
namespace {

/// With at most so many devices it is fastest to test each device for each op.
constexpr std::size_t few_devices = 8;

/// A ready op for which a device lacks memory.
struct Blocked {
  Bytes need{};
  OpId op{};
  friend auto operator<=>(const Blocked&, const Blocked&) = default;
};

/// The ready ops as one device sees them. An op may be in several heaps, and more than once;
/// started ops are skipped.
struct Offers {
  MinHeap<Rank> startable{};    // may be able to start by now
  MinHeap<Candidate> later{};   // cannot start before Candidate::at
  MinHeap<Blocked> blocked{};   // lack memory, least need first
  std::size_t seen_of_all = 0;  // prefix of offered_to_all_ that this device has seen
};

class EachDevice final : public Candidates {
 public:
  EachDevice(PartialSchedule& schedule, Favourites& favourites)
      : schedule_(schedule),
        favourites_(favourites),
        offers_(schedule.cluster.num_devices()),
        holders_matter_(schedule.transfers.uniform_links() &&
                        schedule.cluster.num_devices() > few_devices) {}

  /// Devices that hold an input of `v`, or a copy of one, may start it at once. All other devices
  /// need transfers of all inputs, so `v` is offered to them when these can be complete.
  void ready(OpId v) override {
    ready_.push(schedule_.rank(v));
    if (schedule_.ops[v].home != any_device) return offer(v, schedule_.ops[v].home);
    if (!holders_matter_) {
      offered_to_all_.push_back(v);
      return;
    }
    holders_.clear();
    schedule_.transfers.for_each_holder(v, [&](DeviceId d) { holders_.push_back(d); });
    std::ranges::sort(holders_);
    const auto rest = std::ranges::unique(holders_);
    holders_.erase(rest.begin(), rest.end());
    for (const DeviceId d : holders_) offer(v, d);
    remote_.push({schedule_.transfers.earliest_elsewhere(v), v});
  }

  std::optional<Choice> best() override {
    std::optional<Choice> found = look();
    // The need of a blocked op can shrink: a copy of its input may have arrived for another op.
    while (!found && retry_at_ == never && schedule_.num_running == 0 && offer_blocked())
      found = look();
    return found;
  }

  TimePoint retry_at() const override { return retry_at_; }

  void started(const Start& start) override {
    if (start.places_group) {
      // A member for which the weights of the whole group did not fit may fit now.
      for (const OpId member : schedule_.graph.members(schedule_.graph.op(start.op).group))
        if (schedule_.is_ready(member) && member != start.op) offer(member, start.device);
    }
    for (const TensorId t : start.copied) {
      for (const EdgeId e : schedule_.graph.readers(t)) {
        const OpId v = schedule_.graph.edge(e).dst;
        if (schedule_.is_ready(v) && schedule_.may_go(v, start.device)) offer(v, start.device);
      }
    }
  }

  void ended(OpId v, DeviceId d) override {
    if (schedule_.memory.ample()) return;
    offer_what_fits(d);
    for (const BookedTransfers::Input& in : schedule_.transfers.inputs(v))
      if (in.src != BookedTransfers::all_devices) offer_what_fits(in.src);
  }

 private:
  void offer(OpId v, DeviceId d) { offers_[d].startable.push(schedule_.rank(v)); }

  std::optional<Choice> look() {
    Rank best = no_rank;
    DeviceId where{};
    retry_at_ = never;
    for (; !remote_.empty() && remote_.top().at <= schedule_.now; remote_.pop()) {
      const OpId v = remote_.top().op;
      if (schedule_.ops[v].home == any_device) offered_to_all_.push_back(v);
    }
    // Where memory matters, each device tests all of its ops: those that do not fit must be marked
    // as blocked, to be offered again later.
    const bool rank_decides = schedule_.memory.ample() && schedule_.uniform_compute;
    for (const DeviceId d : schedule_.cluster.devices()) {
      if (!schedule_.idle(d)) continue;
      const Rank v = choose(d, rank_decides ? best : no_rank);
      if (v == no_rank || v > best || (v == best && !ends_sooner(v.op(), d, where))) continue;
      best = v;
      where = d;
      if (schedule_.uniform_compute && best == first_ready())
        break;  // no other device can be better
    }
    if (best != no_rank) return Choice{best.op(), where};
    if (!remote_.empty()) retry_at_ = std::min(retry_at_, remote_.top().at);
    return std::nullopt;
  }

  bool ends_sooner(OpId v, DeviceId d, DeviceId than) const {
    return !schedule_.uniform_compute &&
           schedule_.costs.compute(v, d) < schedule_.costs.compute(v, than);
  }

  Rank first_ready() {
    while (schedule_.ops[ready_.top().op()].home == list::started) ready_.pop();
    return ready_.top();
  }

  /// The op that the idle device `d` would start now, if its rank is below `bound`. Lowers
  /// retry_at_ to the next time at which `d` must be tested.
  Rank choose(DeviceId d, Rank bound) {
    if (const OpId child = favourites_.awaited(d); child != no_op) {
      const auto [op, retry_at] = favourites_.decide(d, child);
      retry_at_ = std::min(retry_at_, retry_at);
      return op;
    }
    offer_due(d);
    const Rank v = first_startable(d, bound);
    if (!offers_[d].later.empty()) retry_at_ = std::min(retry_at_, offers_[d].later.top().at);
    return v;
  }

  /// Offers `d` the ops it has not seen, and those that it may be able to start by now.
  void offer_due(DeviceId d) {
    Offers& offers = offers_[d];
    for (; offers.seen_of_all < offered_to_all_.size(); ++offers.seen_of_all) {
      const OpId v = offered_to_all_[offers.seen_of_all];
      if (schedule_.may_go(v, d)) offer(v, d);
    }
    for (; !offers.later.empty() && offers.later.top().at <= schedule_.now; offers.later.pop()) {
      const OpId v = offers.later.top().op;
      if (schedule_.may_go(v, d)) offer(v, d);
    }
  }

  /// The op of least rank below `bound` that could start on the idle device `d` now.
  Rank first_startable(DeviceId d, Rank bound) {
    auto& [startable, later, blocked, seen] = offers_[d];
    for (; !startable.empty() && startable.top() < bound; startable.pop()) {
      const OpId v = startable.top().op();
      if (!schedule_.may_go(v, d)) continue;
      if (const TimePoint at = schedule_.transfers.earliest(v, d); at > schedule_.now)
        later.push({at, v});
      else if (schedule_.memory.has_room(v, d))
        return startable.top();
      else if (schedule_.memory.weights_fit(v, d))
        blocked.push({schedule_.memory.need(v, d), v});
      // otherwise it never fits on `d`
    }
    return no_rank;
  }

  void offer_what_fits(DeviceId d) {
    auto& blocked = offers_[d].blocked;
    for (; !blocked.empty() && schedule_.memory.is_free(blocked.top().need, d); blocked.pop())
      offer(blocked.top().op, d);
  }

  /// Offers all blocked ops again. False if nothing has started since the last call.
  bool offer_blocked() {
    if (blocked_offered_at_ == schedule_.num_started) return false;
    blocked_offered_at_ = schedule_.num_started;
    for (const DeviceId d : schedule_.cluster.devices()) {
      auto& blocked = offers_[d].blocked;
      for (; !blocked.empty(); blocked.pop()) offer(blocked.top().op, d);
    }
    return true;
  }

  PartialSchedule& schedule_;
  Favourites& favourites_;
  IdVector<DeviceId, Offers> offers_;
  const bool holders_matter_;
  MinHeap<Rank> ready_;            // includes some started ops
  std::vector<DeviceId> holders_;  // devices with an input of an op, or with a copy
  MinHeap<Candidate> remote_;      // ready ops, by the start possible on devices without any input
  std::vector<OpId> offered_to_all_;  // ready ops for which that time has passed
  TimePoint retry_at_ = never;
  std::size_t blocked_offered_at_ = ~std::size_t{0};  // num_started at the last offer_blocked()
};

}  // namespace

std::unique_ptr<Candidates> each_device(PartialSchedule& schedule, Favourites& favourites) {
  return std::make_unique<EachDevice>(schedule, favourites);
}

}  // namespace baechi::list
