#include "placers/line_cuts.h"

#include <numeric>

#include "placers/interface/colocation.h"

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

/// The order of the units that stay together, in blocks.
class UnitLine {
 public:
  UnitLine(const Problem& p, std::size_t most_blocks) : p_(p), block_(p.graph.num_ops()) {
    const ColocationUnits units(p.graph);
    std::vector<std::uint32_t> leader(units.size());  // units of a forward op and its backward op
    std::iota(leader.begin(), leader.end(), 0U);
    const auto find = [&](std::uint32_t u) {
      while (leader[u] != u) u = leader[u] = leader[leader[u]];
      return u;
    };
    for (const OpId v : p.graph.ops()) {
      const OpId forward = p.graph.op(v).forward;
      if (forward == no_op) continue;
      const auto a = find(static_cast<std::uint32_t>(index(units.of(v))));
      const auto b = find(static_cast<std::uint32_t>(index(units.of(forward))));
      leader[std::max(a, b)] = std::min(a, b);
    }
    std::vector<std::uint32_t> number(units.size(), none);
    std::uint32_t count = 0;
    for (const OpId v : p.graph.ops()) {
      std::uint32_t& n = number[find(static_cast<std::uint32_t>(index(units.of(v))))];
      if (n == none) n = count++;
      block_[v] = n;
    }
    size_ = count;
    if (count > most_blocks) merge(most_blocks);
  }

  std::size_t size() const { return size_; }
  std::uint32_t of(OpId v) const { return block_[v]; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// Joins neighbours into blocks of about equal op times and persistent bytes.
  void merge(std::size_t most) {
    std::vector<double> weight(size_, 0.0);
    const IdVector<OpId, Duration> time = mean_compute(p_);
    double times = 1.0, bytes = 1.0;
    for (const OpId v : p_.graph.ops()) {
      times += static_cast<double>(time[v].count());
      bytes += static_cast<double>(p_.graph.op(v).persistent.count);
    }
    for (const OpId v : p_.graph.ops())
      weight[block_[v]] += static_cast<double>(time[v].count()) / times +
                           static_cast<double>(p_.graph.op(v).persistent.count) / bytes;
    std::vector<std::uint32_t> joined(size_);
    double before = 0.0;
    for (std::size_t b = 0; b < size_; ++b) {
      joined[b] =
          static_cast<std::uint32_t>((before + weight[b] / 2) / 2.0 * static_cast<double>(most));
      before += weight[b];
    }
    std::uint32_t count = 0;
    std::vector<std::uint32_t> renumbered(size_);
    for (std::size_t b = 0; b < size_; ++b) {
      if (b > 0 && joined[b] != joined[b - 1]) ++count;
      renumbered[b] = count;
    }
    for (const OpId v : p_.graph.ops()) block_[v] = renumbered[block_[v]];
    size_ = count + 1;
  }

  const Problem& p_;
  IdVector<OpId, std::uint32_t> block_;
  std::size_t size_ = 0;
};

class Cuts {
 public:
  Cuts(const Problem& p, CutTrial& trial)
      : p_(p), trial_(trial), classes_(device_classes(p)), limit_(memory_limits(p)) {}

  void run(std::size_t most) {
    const UnitLine all(p_, p_.graph.num_ops());
    const std::size_t tries = most / p_.graph.num_ops();
    if (num_cuts(all.size(), tries) <= tries) {
      std::vector<DeviceId> of_block(all.size());
      std::vector<std::size_t> used(classes_.size(), 0);
      return try_all(all, 0, used, of_block);
    }
    std::size_t states = 1;
    for (const DeviceClass& c : classes_)
      states = std::min<std::size_t>(states * (c.devices.size() + 1), 4096);
    std::size_t blocks = 256;  // the program takes about blocks^2 x states x classes
    while (blocks > 16 && blocks * blocks * states * classes_.size() > most * 8) blocks /= 2;
    if (states == 4096) return;
    const UnitLine line(p_, blocks);
    for (const Measure measure : {Measure::persistent, Measure::kept, Measure::all})
      search(line, measure);
  }

 private:
  enum class Measure : std::uint8_t { persistent, kept, all };

  /// The number of placements of stretches, or any number above `most`.
  std::size_t num_cuts(std::size_t blocks, std::size_t most) const {
    std::vector<std::size_t> used(classes_.size(), 0);
    std::size_t count = 0;
    count_from(blocks, used, most, count);
    return count;
  }
  void count_from(std::size_t blocks, std::vector<std::size_t>& used, std::size_t most,
                  std::size_t& count) const {
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (used[c] == classes_[c].devices.size()) continue;
      ++count;  // the last stretch
      ++used[c];
      for (std::size_t left = 1; left < blocks && count <= most; ++left)
        count_from(left, used, most, count);
      --used[c];
    }
  }

  void try_all(const UnitLine& line, std::size_t begin, std::vector<std::size_t>& used,
               std::vector<DeviceId>& of_block) {
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (used[c] == classes_[c].devices.size()) continue;
      const DeviceId d = classes_[c].devices[used[c]++];
      for (std::size_t end = begin + 1; end < line.size(); ++end) {
        of_block[end - 1] = d;
        try_all(line, end, used, of_block);
      }
      of_block[line.size() - 1] = d;
      trial_.excess_peaks(placement(line, of_block));
      --used[c];
    }
  }

  Placement placement(const UnitLine& line, const std::vector<DeviceId>& of_block) const {
    Placement result;
    for (const OpId v : p_.graph.ops()) result.device.push_back(of_block[line.of(v)]);
    return result;
  }

  LineCosts costs(const UnitLine& line, Measure measure) const {
    LineCosts c(line.size(), classes_.size());
    const IdVector<TensorId, Duration> transfer = mean_transfer(p_);
    const OpGraph& g = p_.graph;
    for (const OpId v : g.ops()) {
      const std::size_t b = line.of(v);
      c.add(p_, classes_, v, b);
      Bytes working = g.op(v).temporary + bytes_read(g, v);
      for (const TensorId t : g.outputs(v)) {
        working += g.tensor(t).held();
        std::size_t first = b, last = b;
        bool kept = false;
        for (const EdgeId e : g.readers(t)) {
          const OpId reader = g.edge(e).dst;
          first = std::min<std::size_t>(first, line.of(reader));
          last = std::max<std::size_t>(last, line.of(reader));
          kept = kept || g.op(reader).phase != g.op(v).phase;
        }
        if (measure == Measure::all || (measure == Measure::kept && kept))
          c.bytes[b + 1] += g.tensor(t).held();
        c.cross[first + 1] += transfer[t].count();
        c.cross[last + 1] -= transfer[t].count();
      }
      c.working[b] = std::max(c.working[b], working);
    }
    c.sum_up();
    return c;
  }

  void search(const UnitLine& line, Measure measure) {
    const LineCosts c = costs(line, measure);
    IdVector<DeviceId, Bytes> limit = limit_;
    for (int round = 0; round < 5; ++round) {
      const std::vector<LineCuts> cuts = cut_stretches(c, classes_, limit, LineGoal::sum);
      if (cuts.empty()) break;
      const auto& of_block = std::ranges::min_element(cuts, {}, &LineCuts::value)->of_block;
      const IdVector<DeviceId, Bytes> peak = trial_.excess_peaks(placement(line, of_block));
      if (peak.size() == 0) return;
      // Devices of a class are alike: all of them shrink.
      for (const DeviceClass& cls : classes_) {
        double shrinks = 1.0;
        for (const DeviceId d : cls.devices)
          if (peak[d] > limit_[d])
            shrinks = std::min(
                shrinks, static_cast<double>(limit_[d].count) / static_cast<double>(peak[d].count));
        for (const DeviceId d : cls.devices) limit[d] = 0.98 * shrinks * limit[d];
      }
    }
    if (p_.graph.num_ops() > climbed_ops) search_fixed(line, c);
  }

  /// Cuts for fixed limits, which do not depend on the memory there is, the largest first, until a
  /// step fits: what fits with less memory fits with more. `limit_` is their proportion.
  void search_fixed(const UnitLine& line, const LineCosts& c) {
    const Bytes largest = *std::ranges::max_element(limit_);
    if (largest <= Bytes{}) return;
    IdVector<DeviceId, double> size;  // relative to the largest
    for (const Bytes m : limit_)
      size.push_back(static_cast<double>(m.count) / static_cast<double>(largest.count));
    const double devices = std::accumulate(size.begin(), size.end(), 0.0);
    std::vector<DeviceId> before;
    for (double share = 1.0; share * devices >= 1.0; share *= 0.87) {  // of all bytes
      const Bytes level = share * c.bytes.back();
      if (level > largest) continue;
      IdVector<DeviceId, Bytes> limit;
      for (const double s : size) limit.push_back(s * level);
      const std::vector<LineCuts> cuts = cut_stretches(c, classes_, limit, LineGoal::sum);
      if (cuts.empty()) return;
      const auto& of_block = std::ranges::min_element(cuts, {}, &LineCuts::value)->of_block;
      if (of_block == before) continue;
      before = of_block;
      if (trial_.excess_peaks(placement(line, of_block)).size() == 0) return;
    }
  }

  const Problem& p_;
  CutTrial& trial_;
  const std::vector<DeviceClass> classes_;
  const IdVector<DeviceId, Bytes> limit_;
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

void try_straight_cuts(const Problem& problem, std::size_t most, CutTrial& trial) {
  Cuts(problem, trial).run(most);
}

}  // namespace baechi
