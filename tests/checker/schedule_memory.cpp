#include "tests/checker/schedule_checker_parts.h"

namespace baechi::testing {
namespace {

class MemoryCheck {
 public:
  MemoryCheck(const Matched& m, const Order& order, Faults& faults)
      : m_(m),
        graph_(m.problem.graph),
        cluster_(m.problem.cluster),
        work_(m.run.work),
        result_(m.run.result),
        order_(order),
        faults_(faults),
        changes_(cluster_.num_devices()) {}

  void run() {
    hold_weights();
    for (std::size_t i = 0; i < work_.size(); ++i) {
      if (work_[i].is_transfer)
        hold_copy(i);
      else
        hold_outputs_and_workspace(i);
    }
    for (const DeviceId d : cluster_.devices()) check_device(d);
    check_verdict();
  }

 private:
  struct Change {
    Stamp at;
    MemoryKind kind;
    std::int64_t bytes;
  };

  Stamp end_of(std::size_t work) const { return work == no_work ? never : order_.ended[work]; }

  void hold(DeviceId d, Stamp from, Stamp to, MemoryKind kind, Bytes size) {
    if (size == Bytes{}) return;
    changes_[d].push_back({from, kind, size.count});
    if (to != never) changes_[d].push_back({to, kind, -size.count});
  }

  /// Weights live from the beginning to the end; requested in id order up to the first misfit.
  void hold_weights() {
    IdVector<DeviceId, Bytes> used(cluster_.num_devices());
    for (const OpId v : graph_.ops()) {
      const DeviceId d = m_.device_of(v);
      const Bytes weights = graph_.op(v).persistent;
      used[d] += weights;
      if (m_.problem.engine.enforce_memory && used[d] > cluster_.device(d).memory) {
        weights_refused_ = v;
        return;
      }
      hold(d, {}, never, MemoryKind::weights, weights);
    }
  }

  /// A copy lives from the transfer's start to the end of the last reader that it serves.
  void hold_copy(std::size_t i) {
    const Work& w = work_[i];
    Stamp last = order_.ended[i];
    for (const EdgeId e : graph_.readers(w.tensor))
      if (m_.edge_work[e] == i) last = std::max(last, end_of(m_.op_work[graph_.edge(e).dst]));
    hold(w.dst, order_.started[i], last, MemoryKind::copies, m_.copied(w.tensor));
  }

  /// Workspace lives while the op runs; an output from its start to the end of the last local
  /// reader and the last transfer.
  void hold_outputs_and_workspace(std::size_t i) {
    const Work& w = work_[i];
    hold(w.dst, order_.started[i], order_.ended[i], MemoryKind::workspace,
         graph_.op(w.op).temporary);
    for (const TensorId t : graph_.outputs(w.op)) {
      Stamp last = order_.ended[i];
      for (const EdgeId e : graph_.readers(t)) {
        const std::size_t use = m_.remote(e) ? m_.edge_work[e] : m_.op_work[graph_.edge(e).dst];
        last = std::max(last, end_of(use));
      }
      hold(w.dst, order_.started[i], last, MemoryKind::outputs, m_.held(t));
    }
  }

  void check_device(DeviceId d) {
    auto& changes = changes_[d];
    std::ranges::stable_sort(changes, {}, &Change::at);
    const auto& reports = m_.run.memory;
    auto told = reports.begin();
    MemoryUse use, at_peak;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const Change& c = changes[i];
      use[c.kind] += Bytes{c.bytes};
      if (i + 1 < changes.size() && changes[i + 1].at == c.at) continue;
      if (use.total() > at_peak.total()) at_peak = use;
      told = std::find_if(told, reports.end(), [&](const MemoryReport& r) {
        return r.device == d && r.at == c.at.time && r.use == use;
      });
      if (told == reports.end()) {
        faults_.add("memory: {} B in use on {} at {} not told", use.total().count, index(d),
                    text(c.at.time));
        return;
      }
    }
    at_end_.push_back(use);
    check_reports(d, use, at_peak.total());
    const DeviceUse& claimed = result_.devices[d];
    if (claimed.peak != at_peak.total() || claimed.at_peak != at_peak)
      faults_.add("memory: the peak on {} is {} B, said to be {} B", index(d),
                  at_peak.total().count, claimed.peak.count);
    if (m_.problem.engine.enforce_memory && at_peak.total() > cluster_.device(d).memory)
      faults_.add("memory: {} B in use on {}", at_peak.total().count, index(d));
    for (const MemoryKind kind : memory_kinds) {
      if (!result_.oom && kind != MemoryKind::weights && use[kind] != Bytes{})
        faults_.add("memory: {} B of {} left on {}", use[kind].count, to_text(kind), index(d));
    }
  }

  /// Reports never exceed the peak, and the last one equals the remaining memory.
  void check_reports(DeviceId d, const MemoryUse& left, Bytes peak) {
    MemoryUse last;
    for (const MemoryReport& r : m_.run.memory) {
      if (r.device != d) continue;
      last = r.use;
      if (r.use.total() > peak)
        faults_.add("memory: {} B told on {} at {}", r.use.total().count, index(d), text(r.at));
    }
    if (last != left) faults_.add("memory: the last told of {} is not what is left", index(d));
  }

  void check_verdict() {
    if (weights_refused_ && (!work_.empty() || !result_.oom))
      faults_.add("verdict: weights do not fit, but the run went on");
    if (!result_.oom || !faults_.empty()) return;
    const OutOfMemory right = expected_verdict();
    const OutOfMemory& oom = *result_.oom;
    if (!m_.problem.engine.enforce_memory || right.needed <= right.free)
      faults_.add("verdict: {} B did fit in {} B", right.needed.count, right.free.count);
    if (oom.device != right.device || oom.op != right.op || oom.transfer != right.transfer ||
        oom.at != right.at)
      faults_.add("verdict: not the request that was next");
    if (oom.needed != right.needed || oom.free != right.free || oom.live != right.live)
      faults_.add("verdict: {} B were needed, {} B free", right.needed.count, right.free.count);
  }

  OutOfMemory expected_verdict() const {
    OutOfMemory right;
    if (weights_refused_) {
      right.op = *weights_refused_;
      right.device = m_.device_of(right.op);
      right.needed = graph_.op(right.op).persistent;
    } else {
      const Work& w = *order_.refused;
      right.op = w.op;
      right.device = w.dst;
      right.at = w.start;
      if (w.is_transfer) {
        right.transfer = w.tensor;
        right.needed = m_.copied(w.tensor);
      } else {
        right.needed = graph_.op(w.op).temporary;
        for (const TensorId t : graph_.outputs(w.op)) right.needed += m_.held(t);
      }
    }
    right.live = at_end_[right.device];
    right.free = cluster_.device(right.device).memory - right.live.total();
    return right;
  }

  const Matched& m_;
  const OpGraph& graph_;
  const Cluster& cluster_;
  const std::vector<Work>& work_;
  const StepResult& result_;
  const Order& order_;
  Faults& faults_;
  std::optional<OpId> weights_refused_;
  IdVector<DeviceId, std::vector<Change>> changes_;
  IdVector<DeviceId, MemoryUse> at_end_;  // or at the OOM
};

}  // namespace

void check_memory(const Matched& m, const Order& order, Faults& faults) {
  MemoryCheck(m, order, faults).run();
}

}  // namespace baechi::testing
