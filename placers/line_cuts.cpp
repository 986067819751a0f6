#include "placers/line_cuts.h"

#include <algorithm>
#include <limits>

namespace baechi {
namespace {

constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max();

class Stretches {
 public:
  Stretches(const LineCosts& costs, const std::vector<DeviceClass>& classes,
            const IdVector<DeviceId, Bytes>& limit, LineGoal goal)
      : c_(costs), classes_(classes), limit_(limit), goal_(goal), stride_{1} {
    for (const DeviceClass& cls : classes)
      stride_.push_back(std::min(stride_.back() * (cls.devices.size() + 1), too_many));
  }

  std::vector<LineCuts> run() {
    const std::size_t states = stride_.back(), n = c_.blocks;
    if (states == too_many) return {};
    least_.assign(states * (n + 1), unreachable);
    from_.assign(states * (n + 1), {});
    least_[0] = 0;
    std::vector<std::size_t> best;  // by number of devices
    for (std::size_t s = 1; s < states; ++s) {
      std::size_t devices = 0;
      for (std::size_t i = 0; i < classes_.size(); ++i) {
        devices += number(s, i);
        if (number(s, i) > 0) extend(s, i);
      }
      best.resize(std::max(best.size(), devices + 1), 0);
      if (at(s, n) < at(best[devices], n)) best[devices] = s;
    }
    std::vector<LineCuts> result;
    for (const std::size_t s : best)
      if (s > 0) result.push_back({devices_of(s), at(s, n)});
    return result;
  }

 private:
  static constexpr std::size_t too_many = 4097;
  struct From {
    std::uint32_t begin = 0, cls = 0;
  };

  std::int64_t& at(std::size_t state, std::size_t end) {
    return least_[state * (c_.blocks + 1) + end];
  }
  /// The devices of a class that the state has used.
  std::size_t number(std::size_t state, std::size_t cls) const {
    return state / stride_[cls] % (classes_[cls].devices.size() + 1);
  }

  /// All last stretches on a device of `cls`.
  void extend(std::size_t state, std::size_t cls) {
    const std::size_t before = state - stride_[cls], k = c_.classes;
    const Bytes room = limit_[classes_[cls].devices.front()];
    for (std::size_t end = 1; end <= c_.blocks; ++end) {
      Bytes working{};
      std::int64_t least = unreachable;
      std::size_t from = 0;
      for (std::size_t begin = end; begin-- > 0;) {
        working = std::max(working, c_.working[begin]);
        if (c_.bytes[end] - c_.bytes[begin] + working > room) break;
        const std::int64_t head = at(before, begin);
        if (head == unreachable) continue;
        const std::int64_t time = c_.time[end * k + cls] - c_.time[begin * k + cls];
        const std::int64_t value =
            goal_ == LineGoal::sum ? head + time + c_.cross[begin] : std::max(head, time);
        if (value > least) continue;
        least = value;
        from = begin;
      }
      From& known = from_[state * (c_.blocks + 1) + end];
      if (least > at(state, end) || least == unreachable) continue;
      if (least == at(state, end) && from >= known.begin) continue;
      at(state, end) = least;
      known = {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(cls)};
    }
  }

  std::vector<DeviceId> devices_of(std::size_t state) const {
    std::vector<DeviceId> of_block(c_.blocks);
    for (std::size_t end = c_.blocks; end > 0;) {
      const From f = from_[state * (c_.blocks + 1) + end];
      // Equal devices are taken in the order of the line.
      const DeviceId d = classes_[f.cls].devices[number(state, f.cls) - 1];
      std::fill(of_block.begin() + f.begin, of_block.begin() + static_cast<std::ptrdiff_t>(end), d);
      state -= stride_[f.cls];
      end = f.begin;
    }
    return of_block;
  }

  const LineCosts& c_;
  const std::vector<DeviceClass>& classes_;
  const IdVector<DeviceId, Bytes>& limit_;
  LineGoal goal_;
  std::vector<std::size_t> stride_;  // [classes + 1]
  std::vector<std::int64_t> least_;  // [states, blocks + 1]
  std::vector<From> from_;           // [states, blocks + 1]
};

}  // namespace

void LineCosts::add(const Problem& p, const std::vector<DeviceClass>& all, OpId v,
                    std::size_t block) {
  for (std::size_t i = 0; i < classes; ++i)
    time[(block + 1) * classes + i] += p.costs.compute(v, all[i].devices.front()).count();
  bytes[block + 1] += p.graph.op(v).persistent;
}

void LineCosts::sum_up() {
  for (std::size_t b = 1; b <= blocks; ++b) {
    bytes[b] += bytes[b - 1];
    cross[b] += cross[b - 1];
    for (std::size_t i = 0; i < classes; ++i) time[b * classes + i] += time[(b - 1) * classes + i];
  }
}

std::vector<LineCuts> cut_stretches(const LineCosts& costs, const std::vector<DeviceClass>& classes,
                                    const IdVector<DeviceId, Bytes>& limit, LineGoal goal) {
  return Stretches(costs, classes, limit, goal).run();
}

}  // namespace baechi
