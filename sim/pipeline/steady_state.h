/// Extrapolation of a run of few micro-batches to one of many: between filling and draining, a
/// pipeline is periodic.
#pragma once
#include "sim/pipeline/unroll.h"
#include "sim/problem/step.h"

namespace baechi::pipeline {

/// Whether runs of the schedule can be periodic.
bool may_repeat(const ScheduleEntry& entry);
/// The least number of micro-batches of a period: one, or a group if stages have several chunks.
std::size_t group_of(Layout layout, std::size_t stages);
/// The number of micro-batches to try first (`many` if a third is not enough), and the next number
/// to try after `few`.
std::size_t few_micro_batches(std::size_t many, std::size_t stages, std::size_t group);
std::size_t more_micro_batches(std::size_t few, std::size_t many, std::size_t group);

/// Whether `many` equals `few` with additional periods of `period_of` micro-batches, before each
/// stage drains, that repeat the last one of `few`. The two runs are then the same up to the first
/// op of the last `period_of` micro-batches of `few`.
bool repeats(const Schedule& few, const Schedule& many, std::size_t period_of);

/// The interval of length `period` from `from` on in a run of few micro-batches is repeated `times`
/// more in a run of many; all else is the same.
struct Repetition {
  TimePoint from{};
  Duration period{};
  std::int64_t times = 0;
};

/// Records when ops ran and tensors were sent, to find a period.
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

  /// After the run: the repetition that gives a run of the schedule `many`; nothing if there is
  /// none. Compares the states at the first op of the last period and of the one before: if the
  /// same ops have ended, running ops have the same remaining time, and waiting ops have waited as
  /// long, the run is periodic while the passes are. A period has one group or more, since stages
  /// that wait for each other alternately return to a state after several. `times` is 0 if memory
  /// ran out before the last group began.
  std::optional<Repetition> repetition(const Schedule& many) const;
  Bytes sent_in(const Repetition& repeated) const;

 private:
  struct Span {
    TimePoint start = TimePoint::max(), end{};
  };
  /// From the first start to the last end of the ops of each micro-batch.
  std::vector<Span> micro_batches() const;
  /// Copies of ops for each micro-batch, without updates, in the order of the ops.
  using Copies = std::vector<std::vector<OpId>>;
  Copies copies() const;
  /// Whether the state at `from` equals that at `later` with micro-batches shifted by `of`.
  bool is_as_far(std::span<const Span> spans, const Copies& copies, TimePoint from, TimePoint later,
                 std::size_t of) const;
  /// The same for one op and its copy for the other micro-batch, with their transfers.
  bool is_as_far(OpId v, OpId copy, TimePoint from, TimePoint later) const;
  /// The arrival of the last input of `v`, if all arrived before `now`.
  std::optional<TimePoint> ready_at(OpId v, TimePoint now) const;
  /// Whether `t` goes to another device.
  bool is_sent(TensorId t) const;

  const Unrolled& unrolled_;
  std::size_t group_;
  IdVector<OpId, Span> ops_;
  IdVector<TensorId, Span> sent_;                      // the tensor's last transfer
  std::vector<std::pair<TimePoint, TensorId>> sends_;  // all transfers
};

}  // namespace baechi::pipeline
