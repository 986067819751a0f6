/// A run of few micro-batches that stands for a run of many: between filling and draining, the
/// stages of a pipeline repeat themselves.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/pipeline/unroll.h"
#include "sim/problem/step.h"

namespace baechi::pipeline {

/// Whether runs of the schedule may repeat themselves: those that flush, pass after pass by rule.
bool may_repeat(const ScheduleEntry& entry);
/// The least number of micro-batches that a period may have: one, or a group where stages have
/// several chunks.
std::size_t group_of(Layout layout, std::size_t stages);
/// How many of `many` micro-batches are tried first (all, if a third is not enough), and how many
/// after `few`.
std::size_t few_micro_batches(std::size_t many, std::size_t stages, std::size_t group);
std::size_t more_micro_batches(std::size_t few, std::size_t many, std::size_t group);

/// Whether `many` has the passes of `few` and, before each stage drains, periods of `period_of`
/// micro-batches more, all like the last one of `few`. Up to the first op of the last `period_of`
/// micro-batches of `few`, the two then do the same.
bool repeats(const Schedule& few, const Schedule& many, std::size_t period_of);

/// What happens from `from` on for `period` in a run of few micro-batches happens `times` more in a
/// run of many; all else is the same.
struct Repetition {
  TimePoint from{};
  Duration period{};
  std::int64_t times = 0;
};

/// Remembers when ops ran and tensors were sent, to find where a run repeats itself.
class SteadyState final : public StepObserver {
 public:
  /// `unrolled` outlives this.
  SteadyState(const Unrolled& unrolled, std::size_t group)
      : unrolled_(unrolled),
        group_(group),
        ops_(unrolled.graph.num_ops()),
        sent_(unrolled.graph.num_tensors()) {}

  void on_op(OpId v, DeviceId, TimePoint start, TimePoint end) override { ops_[v] = {start, end}; }
  void on_transfer(TensorId t, DeviceId, DeviceId, TimePoint start, TimePoint end) override {
    sent_[t] = {start, end};
    sends_.emplace_back(start, t);
  }

  /// After the run: what a run by the schedule `many` does more. Two moments are compared, the
  /// first op of the last period and that of the one before: if at both the same ops are over, as
  /// much is left of those under way, and those that wait have waited as long, everything goes on
  /// alike while the passes are alike. A period has one group or more: stages that wait for each
  /// other in turn come back to the same state after several. Nothing is repeated (`times` is 0) if
  /// memory ran out before the last group began. Nothing is returned if the runs differ in more.
  std::optional<Repetition> repetition(const Schedule& many) const;
  /// Bytes sent in what is repeated, once.
  Bytes sent_in(const Repetition& repeated) const;

 private:
  struct Span {
    TimePoint start = TimePoint::max(), end{};
  };
  /// From the first start to the last end of the ops of each micro-batch.
  std::vector<Span> micro_batches() const;
  /// Copies of ops for each micro-batch, but updates, in the order of the ops.
  using Copies = std::vector<std::vector<OpId>>;
  Copies copies() const;
  /// Whether the run is as far at `from` as at `later`, with other micro-batches: those `of` later.
  bool is_as_far(std::span<const Span> spans, const Copies& copies, TimePoint from, TimePoint later,
                 std::size_t of) const;
  /// The same of one op and of its copy for the other micro-batch, with what they send.
  bool is_as_far(OpId v, OpId copy, TimePoint from, TimePoint later) const;
  /// When the last input of `v` came, if all did before `now`.
  std::optional<TimePoint> ready_at(OpId v, TimePoint now) const;
  /// Whether `t` goes to another device.
  bool is_sent(TensorId t) const;

  const Unrolled& unrolled_;
  std::size_t group_;
  IdVector<OpId, Span> ops_;
  IdVector<TensorId, Span> sent_;                      // its last transfer
  std::vector<std::pair<TimePoint, TensorId>> sends_;  // all transfers
};

}  // namespace baechi::pipeline
