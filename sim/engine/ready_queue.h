/// The ready ops of every device, in the order they will run.
#pragma once
#include <algorithm>

#include "sim/cluster/placement.h"

namespace baechi {

/// Fifo: by (time it became ready, op id). Ops become ready in time order, so only those of one
/// instant need sorting. Priority: by (largest priority, op id).
/// All devices share one array of num_ops places, each its own stretch, as long as it has ops.
class ReadyQueues {
  struct Stretch {
    std::size_t head = 0, tail = 0;  // into places_
    std::size_t batch = 0;           // where the ops of batch_time begin
    TimePoint batch_time{Duration{-1}};
    bool sorted = true;  // places_[batch .. tail)
  };

  std::vector<OpId>::iterator at(std::size_t i) {
    return places_.begin() + static_cast<std::ptrdiff_t>(i);
  }
  auto runs_later() const {
    return [this](OpId a, OpId b) {
      if (priority_ != nullptr && priority_[index(a)] != priority_[index(b)])
        return priority_[index(a)] < priority_[index(b)];
      return a > b;
    };
  }

 public:
  ReadyQueues(const Placement& placement, std::size_t num_devices, ReadyOrder order)
      : priority_(order == ReadyOrder::priority && !placement.priority.empty()
                      ? placement.priority.data()
                      : nullptr),
        by_priority_(order == ReadyOrder::priority),
        places_(placement.device.size()),
        devices_(num_devices) {
    for (const DeviceId d : placement.device) ++devices_[d].tail;
    std::size_t begin = 0;
    for (Stretch& s : devices_) {
      const std::size_t count = s.tail;
      s.head = s.tail = s.batch = begin;
      begin += count;
    }
  }

  bool empty(DeviceId d) const { return devices_[d].head == devices_[d].tail; }

  void push(DeviceId d, OpId v, TimePoint now) {
    Stretch& s = devices_[d];
    if (by_priority_) {
      places_[s.tail++] = v;
      std::push_heap(at(s.head), at(s.tail), runs_later());
      return;
    }
    if (s.batch_time != now) {
      sort_batch(s);
      s.batch = s.tail;
      s.batch_time = now;
    } else if (v < places_[s.tail - 1]) {
      s.sorted = false;
    }
    places_[s.tail++] = v;
  }

  OpId pop(DeviceId d) {
    Stretch& s = devices_[d];
    if (by_priority_) {
      // A heap must stay where it begins: the place given up is the last one.
      std::pop_heap(at(s.head), at(s.tail), runs_later());
      return places_[--s.tail];
    }
    sort_batch(s);
    return places_[s.head++];
  }

 private:
  void sort_batch(Stretch& s) {
    if (!s.sorted) std::sort(at(std::max(s.batch, s.head)), at(s.tail));
    s.sorted = true;
  }

  const std::int32_t* priority_;  // [num_ops], or null: all equal
  bool by_priority_;
  std::vector<OpId> places_;  // [num_ops]
  IdVector<DeviceId, Stretch> devices_;
};

}  // namespace baechi
