#include "placers/list/partial_schedule.h"
#include "sim/error.h"

namespace baechi::list {

/// set() and find() take logarithmic time in the number of keys.
class FirstAtMost {
 public:
  using Key = std::int64_t;
  static constexpr Key never = std::numeric_limits<Key>::max();  ///< no limit finds this key

  /// All keys are `never`.
  explicit FirstAtMost(std::size_t places)
      : first_leaf_(std::bit_ceil(std::max<std::size_t>(places, 1))),
        least_(2 * first_leaf_, never) {}

  void set(std::size_t place, Key key) {
    std::size_t i = first_leaf_ + place;
    least_[i] = key;
    while (i > 1) {
      i /= 2;
      const Key least = std::min(least_[2 * i], least_[2 * i + 1]);
      if (least_[i] == least) return;
      least_[i] = least;
    }
  }
  bool has(std::size_t place) const { return least_[first_leaf_ + place] != never; }
  Key least() const { return least_[1]; }
  /// The first place whose key is at most `limit`, which must be in least() .. `never` - 1.
  std::size_t find(Key limit) const {
    std::size_t i = 1;
    while (i < first_leaf_) i = 2 * i + (least_[2 * i] > limit ? 1 : 0);
    return i - first_leaf_;
  }

 private:
  std::size_t first_leaf_;
  std::vector<Key> least_;  // [2 first_leaf_], the least key of each subtree; [0] is unused
};

namespace {

/// With at most so many devices it is fastest to test each device for each op: with 2 devices 1652
/// instructions per op instead of 2192.
constexpr std::size_t few_uniform_devices = 3;

/// The ready ops that may go to any device, and the idle devices that do not wait. On a device that
/// holds none of an op's inputs they arrive at max(pending_inputs.sent, the device's clock +
/// pending_inputs.received) (booked_transfers.h). `sent` does not depend on the device, and the
/// least busy receiver is the best, so one test decides for all such devices. A device that holds
/// an input gets all inputs no later, and is tested separately.
class RemoteOps {
 public:
  RemoteOps(std::size_t num_ops, std::size_t num_devices, BookedTransfers& transfers)
      : transfers_(transfers), ops_(num_ops, no_op), received_(num_ops), idle_(num_devices) {}

  /// `d` is idle; call again when its receiver clock moves.
  void set_idle(DeviceId d) { idle_.set(index(d), count(transfers_.receiver_clock(d))); }
  void set_busy(DeviceId d) { idle_.set(index(d), FirstAtMost::never); }

  /// Adds the ready op `v`, the `place`th in the order of ranks.
  void add(OpId v, std::size_t place, TimePoint now) {
    ops_[place] = v;
    const BookedTransfers::PendingInputs way = transfers_.pending_inputs(v);
    if (way.sent <= now)
      received_.set(place, way.received.count());
    else
      later_.push({way, place});
  }
  /// Removes an op that has started or is bound to a device. Does nothing if there is no op at
  /// `place`.
  void erase(std::size_t place) {
    if (ops_[place] == no_op) return;
    ops_[place] = no_op;
    if (received_.has(place)) received_.set(place, FirstAtMost::never);
  }

  /// The first op, at place `last` at the latest, that an idle device could start now, and the
  /// first such device.
  std::optional<Choice> first(std::size_t last, TimePoint now) {
    for (; !later_.empty() && later_.top().way.sent <= now; later_.pop()) {
      const auto& [way, place] = later_.top();
      if (ops_[place] != no_op) received_.set(place, way.received.count());
    }
    while (idle_.least() != FirstAtMost::never) {
      const FirstAtMost::Key limit = count(now) - idle_.least();
      if (received_.least() > limit) break;
      const std::size_t place = received_.find(limit);
      if (place > last) break;
      const BookedTransfers::PendingInputs way = transfers_.pending_inputs(ops_[place]);
      if (way.sent <= now) return Choice{ops_[place], first_idle(way, now)};
      received_.set(place, FirstAtMost::never);
      later_.push({way, place});
    }
    return std::nullopt;
  }

  /// After first() has returned nothing: the earliest time at which it may return a choice.
  TimePoint retry_at() const {
    if (idle_.least() == FirstAtMost::never) return never;
    TimePoint at = later_.empty() ? never : later_.top().way.sent;
    if (received_.least() != FirstAtMost::never)
      at = std::min(at, TimePoint{Duration{idle_.least() + received_.least()}});
    return at;
  }

 private:
  static FirstAtMost::Key count(TimePoint t) { return t.time_since_epoch().count(); }

  DeviceId first_idle(const BookedTransfers::PendingInputs& way, TimePoint now) const {
    if (way.received == BookedTransfers::PendingInputs::at_once)
      return static_cast<DeviceId>(idle_.find(FirstAtMost::never - 1));
    return static_cast<DeviceId>(idle_.find(count(now) - way.received.count()));
  }

  struct Later {
    BookedTransfers::PendingInputs way{};  // its value at the push
    std::size_t place = 0;
    friend bool operator>(const Later& a, const Later& b) { return a.way.sent > b.way.sent; }
  };

  BookedTransfers& transfers_;
  std::vector<OpId> ops_;  // [num_ops], by place
  FirstAtMost received_;   // by place: `received` of the ops whose `sent` is no later than now
  FirstAtMost idle_;       // by device: receiver clocks of the idle devices
  MinHeap<Later> later_;   // the other ops
};

class UniformDevices final : public Candidates {
 public:
  UniformDevices(PartialSchedule& schedule, Favourites& favourites)
      : schedule_(schedule),
        favourites_(favourites),
        few_(schedule.cluster.num_devices() <= few_uniform_devices),
        offers_(schedule.cluster.num_devices()),
        offered_(schedule.cluster.num_devices()),
        may_wait_(schedule.cluster.num_devices()),
        remote_(schedule.graph.num_ops(), schedule.cluster.num_devices(), schedule.transfers) {
    for (const DeviceId d : schedule.cluster.devices()) remote_.set_idle(d);
  }

  /// Devices that hold an input of `v` are tested separately, all others at once.
  void ready(OpId v) override {
    if (schedule_.ops[v].home != any_device) return offer(v, schedule_.ops[v].home);
    if (few_) {
      for (const DeviceId d : schedule_.cluster.devices()) offer(v, d);
      return;
    }
    schedule_.transfers.for_each_nearer(v, [&](DeviceId d) {
      if (std::exchange(offers_[d].newest, v) != v) offer(v, d);
    });
    remote_.add(v, schedule_.place(v), schedule_.now);
  }

  std::optional<Choice> best() override {
    retry_at_ = never;
    if (schedule_.num_running == schedule_.cluster.num_devices()) return std::nullopt;
    for (; !later_.empty() && later_.top().first.at <= schedule_.now; later_.pop()) {
      const auto [candidate, d] = later_.top();
      if (schedule_.may_go(candidate.op, d)) offer(candidate.op, d);
    }
    best_ = no_rank;
    try_waiting_devices();
    try_offered_devices();
    const std::size_t last =
        best_ == no_rank ? schedule_.graph.num_ops() : schedule_.place(best_.op());
    if (const auto found = remote_.first(last, schedule_.now))
      propose(schedule_.rank(found->op), found->device);
    if (best_ != no_rank) return Choice{best_.op(), where_};
    retry_at_ = std::min(retry_at_, remote_.retry_at());
    if (!later_.empty()) retry_at_ = std::min(retry_at_, later_.top().first.at);
    return std::nullopt;
  }

  TimePoint retry_at() const override { return retry_at_; }

  void started(const Start& start) override {
    const auto [v, d, places_group, copied] = start;
    if (places_group) {
      for (const OpId member : schedule_.graph.members(schedule_.graph.op(v).group)) {
        if (!schedule_.is_ready(member) || member == v) continue;
        remote_.erase(schedule_.place(member));
        offer(member, d);
      }
    }
    for (const TensorId t : copied) {
      for (const EdgeId e : schedule_.graph.readers(t)) {
        const OpId reader = schedule_.graph.edge(e).dst;
        if (schedule_.is_ready(reader) && schedule_.may_go(reader, d)) offer(reader, d);
      }
    }
    offers_[d].waits = false;
    remote_.erase(schedule_.place(v));
    report_idle(d);
    for (const BookedTransfers::Input& in : schedule_.transfers.inputs(v))
      if (in.src != d && in.src != BookedTransfers::all_devices) report_idle(in.src);
  }

  void ended(OpId v, DeviceId d) override {
    report_idle(d);
    if (!offers_[d].startable.empty()) offered_.insert(d);
    if (favourites_.of(v) != no_op) may_wait_.insert(d);
  }

 private:
  struct Offers {
    MinHeap<Rank>
        startable{};      // ready ops that may be able to start by now, and some that have started
    OpId newest = no_op;  // the last ready op of which this device holds an input
    bool waits = false;   // idle, for a favourite child
  };

  void offer(OpId v, DeviceId d) {
    offers_[d].startable.push(schedule_.rank(v));
    offered_.insert(d);
  }

  void propose(Rank v, DeviceId d) {
    if (v > best_ || (v == best_ && d >= where_)) return;
    best_ = v;
    where_ = d;
  }

  void try_waiting_devices() {
    may_wait_.drain([&](DeviceId d) {
      if (!schedule_.idle(d)) return;
      const OpId child = favourites_.awaited(d);
      if (const bool waits = child != no_op; waits != offers_[d].waits) {
        offers_[d].waits = waits;
        report_idle(d);
      }
      const OpId favourite = favourites_.of(schedule_.devices[d].last);
      if (favourite != no_op && schedule_.ops[favourite].home != list::started) may_wait_.insert(d);
      if (child == no_op) return;
      const auto [op, retry_at] = favourites_.decide(d, child);
      retry_at_ = std::min(retry_at_, retry_at);
      if (op != no_rank) propose(op, d);
    });
  }

  void try_offered_devices() {
    offered_.drain([&](DeviceId d) {
      if (!schedule_.idle(d)) return;
      if (!offers_[d].waits) {
        Rank bound = best_;
        if (best_ != no_rank && d < where_) ++bound.turn_and_id;
        if (const Rank v = first_startable(d, bound); v != no_rank) propose(v, d);
      }
      if (!offers_[d].startable.empty()) offered_.insert(d);
    });
  }

  /// The op of least rank below `bound` that could start on the idle device `d` now.
  Rank first_startable(DeviceId d, Rank bound) {
    auto& startable = offers_[d].startable;
    for (; !startable.empty() && startable.top() < bound; startable.pop()) {
      const OpId v = startable.top().op();
      if (!schedule_.may_go(v, d)) continue;
      const TimePoint at = schedule_.transfers.earliest(v, d);
      if (at <= schedule_.now) return startable.top();
      later_.push({{at, v}, d});
    }
    return no_rank;
  }

  void report_idle(DeviceId d) {
    if (schedule_.idle(d) && !offers_[d].waits)
      remote_.set_idle(d);
    else
      remote_.set_busy(d);
  }

  PartialSchedule& schedule_;
  Favourites& favourites_;
  const bool few_;
  IdVector<DeviceId, Offers> offers_;
  DeviceSet offered_;   // idle devices that may have something startable
  DeviceSet may_wait_;  // idle devices whose last op's favourite child has not started
  MinHeap<std::pair<Candidate, DeviceId>> later_;  // offers that cannot start before Candidate::at
  RemoteOps remote_;
  Rank best_ = no_rank;  // the best found so far by best(), and its device
  DeviceId where_{};
  TimePoint retry_at_ = never;
};

}  // namespace

std::unique_ptr<Candidates> uniform_devices(PartialSchedule& schedule, Favourites& favourites) {
  BAECHI_CHECK(schedule.uniform, "devices that are not uniform must be tested one by one");
  return std::make_unique<UniformDevices>(schedule, favourites);
}

}  // namespace baechi::list
