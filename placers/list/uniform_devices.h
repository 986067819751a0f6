/// What a device that has none of an op's inputs could start: asked of all such devices at once.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "placers/list/queues.h"
#include "placers/list/booked_transfers.h"

namespace baechi {

/// Keys at places; finds the first place whose key is at most a limit. A tournament tree: both to
/// change a key and to find one takes the logarithm of the number of places.
class FirstAtMost {
 public:
  using Key = std::int64_t;
  static constexpr Key never = std::numeric_limits<Key>::max();  ///< no limit finds it

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
  /// `limit` is at least least(), and less than `never`.
  std::size_t find(Key limit) const {
    std::size_t i = 1;
    while (i < first_leaf_) i = 2 * i + (least_[2 * i] > limit ? 1 : 0);
    return i - first_leaf_;
  }

 private:
  std::size_t first_leaf_;
  std::vector<Key> least_;  // [2 first_leaf_], of the subtree; [0] unused
};

/// The ready ops that may go anywhere, and the idle devices, where devices and links are alike. On
/// a device that has none of an op's inputs they arrive at max(on_their_way.sent, the device's
/// clock + on_their_way.received) (planned_transfers.h): the first does not depend on the device,
/// the second asks for the least busy. So one look answers for all such devices; one that has an
/// input gets it no later, and is asked beside this. 22,000 layered ops on 64 devices take 1.3
/// times as long as on 4, asked one by one 4.7 times.
class Elsewhere {
 public:
  /// `transfers` outlives this. No device is idle.
  Elsewhere(std::size_t num_ops, std::size_t num_devices, PlannedTransfers& transfers)
      : transfers_(transfers), ops_(num_ops, no_op), received_(num_ops), idle_(num_devices) {}

  /// `d` is idle, or was before its clock moved.
  void set_idle(DeviceId d) { idle_.set(index(d), count(transfers_.receiver_clock(d))); }
  void set_busy(DeviceId d) { idle_.set(index(d), FirstAtMost::never); }

  /// `v` is ready and the `place`th in the order in which ops are preferred.
  void add(OpId v, std::size_t place, TimePoint now) {
    ops_[place] = v;
    const PlannedTransfers::OnTheirWay way = transfers_.on_their_way(v);
    if (way.sent <= now)
      received_.set(place, way.received.count());
    else
      later_.push({way, place});
  }
  /// It no longer is, or may no longer go anywhere; does nothing if it never was.
  void erase(std::size_t place) {
    if (ops_[place] == no_op) return;
    ops_[place] = no_op;
    if (received_.has(place)) received_.set(place, FirstAtMost::never);
  }

  struct Found {
    OpId op = no_op;
    DeviceId device{};
  };
  /// The first op, at `last` at the latest, that an idle device could start now, and the first
  /// device that could; no_op if there is none.
  Found first(std::size_t last, TimePoint now) {
    for (; !later_.empty() && later_.top().way.sent <= now; later_.pop()) {
      const auto& [way, place] = later_.top();
      if (ops_[place] != no_op) received_.set(place, way.received.count());
    }
    while (idle_.least() != FirstAtMost::never) {
      const FirstAtMost::Key limit = count(now) - idle_.least();
      if (received_.least() > limit) break;
      const std::size_t place = received_.find(limit);
      if (place > last) break;
      const PlannedTransfers::OnTheirWay way = transfers_.on_their_way(ops_[place]);
      if (way.sent <= now) return {ops_[place], first_idle(way, now)};
      received_.set(place, FirstAtMost::never);
      later_.push({way, place});
    }
    return {};
  }

  /// Before when first() finds nothing, if it has just found nothing.
  TimePoint ask_at() const {
    if (idle_.least() == FirstAtMost::never) return list_queues::never;
    TimePoint at = later_.empty() ? list_queues::never : later_.top().way.sent;
    if (received_.least() != FirstAtMost::never)
      at = std::min(at, TimePoint{Duration{idle_.least() + received_.least()}});
    return at;
  }

 private:
  static FirstAtMost::Key count(TimePoint t) { return t.time_since_epoch().count(); }

  DeviceId first_idle(const PlannedTransfers::OnTheirWay& way, TimePoint now) const {
    if (way.received == PlannedTransfers::OnTheirWay::at_once)
      return static_cast<DeviceId>(idle_.find(FirstAtMost::never - 1));
    return static_cast<DeviceId>(idle_.find(count(now) - way.received.count()));
  }

  struct Later {
    PlannedTransfers::OnTheirWay way{};  // as it was
    std::size_t place = 0;
    friend bool operator>(const Later& a, const Later& b) { return a.way.sent > b.way.sent; }
  };

  PlannedTransfers& transfers_;
  std::vector<OpId> ops_;              // [num_ops], by place
  FirstAtMost received_;               // by place, of what may be sent by now
  FirstAtMost idle_;                   // clocks of the idle devices
  list_queues::MinHeap<Later> later_;  // what is not
};

}  // namespace baechi
