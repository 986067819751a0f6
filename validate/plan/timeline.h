/// The times of a plan's tasks, checks of them that need no GPU, and robust figures of samples.
#pragma once

#include "validate/plan/plan.h"

namespace baechi::validate {

using Samples = std::vector<double>;

/// Linear interpolation between the order statistics (type 7 of Hyndman and Fan); 0 of no samples.
double quantile(Samples samples, double q);
double median(Samples samples);
/// Mean without the lowest and highest tenth: unbiased under a coarse timer, where a median is not.
/// 0 of no samples.
double trimmed_mean(Samples samples);

}  // namespace baechi::validate

namespace baechi::validate::replay {

/// In ns. Tasks that carry no stamps (copies by the copy engines) are not known.
struct Interval {
  std::int64_t start = 0, end = -1;
  bool known() const { return end >= start; }
  std::int64_t length() const { return end - start; }
};

using Timeline = std::vector<Interval>;  ///< [tasks]

/// Moves the first start to 0. No known interval: unchanged.
void start_at_zero(Timeline& times);

/// Last end minus first start, 0 if nothing is known.
std::int64_t span(const Timeline& times);

/// The first task that began more than `tick` before the end of the task before it in its queue, or
/// of one that it comes after; in words, empty if there is none. A clock that ticks coarsely may
/// show one tick.
std::string disorder(const ReplayPlan& plan, const Timeline& times, std::int64_t tick);

/// Most bytes alive per device, resident ones included; a buffer taken at the moment another is
/// given back finds it gone. [devices], empty if a buffer's task is not known.
std::vector<std::int64_t> peak_bytes(const ReplayPlan& plan, const Timeline& times);

/// When the tasks of `plan` would run if each lasted `ns`, a queue's next task began `gap_same`
/// after the one before, and a task `gap_cross` after those of other queues that it comes after.
Timeline first_in_first_out(const ReplayPlan& plan, std::int64_t gap_same, std::int64_t gap_cross);

}  // namespace baechi::validate::replay
