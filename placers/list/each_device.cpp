#include <algorithm>

#include "placers/list/candidates.h"

namespace baechi::list {
namespace {

/// Up to so many devices each is asked about each op: that is the fastest.
constexpr std::size_t few_devices = 8;

/// A ready op without room on a device.
struct Blocked {
  Bytes need{};
  OpId op{};
  friend auto operator<=>(const Blocked&, const Blocked&) = default;
};

/// The ready ops as one device sees them. An op may be in several heaps, and more than once; those
/// that have started are skipped.
struct Offers {
  MinHeap<Rank> startable{};    // may be able to start by now
  MinHeap<Candidate> later{};   // cannot start before their time
  MinHeap<Blocked> blocked{};   // without room, least need first
  std::size_t seen_of_all = 0;  // how many of offered_to_all_ this device has looked at
};

class EachDevice final : public Candidates {
 public:
  EachDevice(PartialSchedule& schedule, Favourites& favourites)
      : schedule_(schedule),
        favourites_(favourites),
        offers_(schedule.cluster.num_devices()),
        holders_matter_(schedule.transfers.uniform_links() &&
                        schedule.cluster.num_devices() > few_devices) {}

  /// Devices that hold an input of `v`, or a copy of one, may start it at once. All inputs must be
  /// sent to any other device, so these are offered `v` when that may be done.
  void ready(OpId v) override {
    ready_.push(schedule_.rank(v));
    if (schedule_.ops[v].home != anywhere) return offer(v, schedule_.ops[v].home);
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
    // An op's need can shrink while it is blocked, where a copy of its input arrives for another.
    while (!found && ask_at_ == never && schedule_.num_running == 0 && offer_blocked())
      found = look();
    return found;
  }

  TimePoint ask_at() const override { return ask_at_; }

  void started(const Start& start) override {
    if (start.places_group) {
      // A member that found no room for the weights of the whole group has room for itself now.
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
      if (in.src != BookedTransfers::everywhere) offer_what_fits(in.src);
  }

 private:
  void offer(OpId v, DeviceId d) { offers_[d].startable.push(schedule_.rank(v)); }

  std::optional<Choice> look() {
    Rank best = no_rank;
    DeviceId where{};
    ask_at_ = never;
    for (; !remote_.empty() && remote_.top().at <= schedule_.now; remote_.pop()) {
      const OpId v = remote_.top().op;
      if (schedule_.ops[v].home == anywhere) offered_to_all_.push_back(v);
    }
    // Where memory decides, each device is asked about all its ops: those without room must be
    // known as blocked, to be offered again when there is.
    const bool rank_decides = schedule_.memory.ample() && schedule_.uniform_compute;
    for (const DeviceId d : schedule_.cluster.devices()) {
      if (!schedule_.idle(d)) continue;
      const Rank v = choose(d, rank_decides ? best : no_rank);
      if (v == no_rank || v > best || (v == best && !ends_sooner(v.op(), d, where))) continue;
      best = v;
      where = d;
      if (schedule_.uniform_compute && best == first_ready()) break;  // none can be better
    }
    if (best != no_rank) return Choice{best.op(), where};
    if (!remote_.empty()) ask_at_ = std::min(ask_at_, remote_.top().at);
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

  /// What the idle device `d` would start now, if its rank is below `bound`. Moves ask_at_ forward
  /// to when `d` is to be asked again.
  Rank choose(DeviceId d, Rank bound) {
    if (const OpId child = favourites_.awaited(d); child != no_op) {
      const auto [op, ask_at] = favourites_.decide(d, child);
      ask_at_ = std::min(ask_at_, ask_at);
      return op;
    }
    offer_due(d);
    const Rank v = first_startable(d, bound);
    if (!offers_[d].later.empty()) ask_at_ = std::min(ask_at_, offers_[d].later.top().at);
    return v;
  }

  /// Offers `d` what it has not seen, and what it may be able to start by now.
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
      // else `d` will never have room
    }
    return no_rank;
  }

  void offer_what_fits(DeviceId d) {
    auto& blocked = offers_[d].blocked;
    for (; !blocked.empty() && schedule_.memory.is_free(blocked.top().need, d); blocked.pop())
      offer(blocked.top().op, d);
  }

  /// Offers all blocked ops again. Says false if nothing has started since this was last done.
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
  MinHeap<Rank> ready_;               // and some that have started
  std::vector<DeviceId> holders_;     // of inputs of an op, or of copies
  MinHeap<Candidate> remote_;         // ready ops, by when devices without an input may start them
  std::vector<OpId> offered_to_all_;  // ready ops for which that time has come
  TimePoint ask_at_ = never;
  std::size_t blocked_offered_at_ = ~std::size_t{0};  // num_started when that was last done
};

}  // namespace

std::unique_ptr<Candidates> each_device(PartialSchedule& schedule, Favourites& favourites) {
  return std::make_unique<EachDevice>(schedule, favourites);
}

}  // namespace baechi::list
