/// Predicts a step after files of what-if rules have rewritten it: each alone, and all together.
#pragma once

#include "scenarios/read/scenario.h"
#include "sim/explain/explanation.h"
#include "traces/trace.h"

namespace baechi {

enum class PathTime : std::uint8_t { compute, host, collective, transfer, waiting };
constexpr auto names_of(PathTime) {
  return std::to_array<Named<PathTime>>(
      {{PathTime::compute, "compute", "ops of the devices"},
       {PathTime::host, "host", "ops in lanes of the host"},
       {PathTime::collective, "collective", ""},
       {PathTime::transfer, "transfer", "between devices, and copies to and from the host"},
       {PathTime::waiting, "waiting", "for a channel, or for a device that runs nothing"}});
}
inline constexpr std::size_t num_path_times = 5;
using PathTimes = std::array<Duration, num_path_times>;

/// The times of a step's critical path by category. Where an op waits for another op of its lane,
/// the chain of the other op counts instead.
PathTimes path_times(const Causes& causes, const OpGraph& graph);

struct WhatIfQuestion {
  std::string name;
  std::vector<TransformChoice> transforms;
  std::int64_t every = 1;  ///< the transforms apply to one step in so many; the row is the mean
  std::vector<TransformChoice> otherwise{};  ///< of the other steps
};

/// The base, each of `rules` alone ("amp", "data_parallel:replicas=16"), and all together. Throws
/// InputError with all mistakes.
std::vector<WhatIfQuestion> what_if_questions(const Scenario& point,
                                              const std::vector<std::string>& rules);

struct WhatIfRow {
  std::string name;            ///< "base", the name of a rule file, or "all together"
  std::string infeasible{};    ///< why there is no placement; "" if there is one
  std::string refused{};       ///< why the rules conflict; "" if they do not
  std::string selects_none{};  ///< which rule selects no op; "" if each does
  Duration step{};             ///< without memory limits, if it does not fit
  double samples = 0.0;        ///< per step
  Bytes peak{};                ///< of the device with the largest ratio of peak to memory
  std::string device{};        ///< its name
  Bytes limit{};               ///< its memory
  bool fits = true;            ///< no device runs out of memory
  PathTimes path{};            ///< adds up to `step`

  bool has_step() const { return why().empty(); }
  std::string why() const { return infeasible + refused + selects_none; }  ///< there is no step
  /// "fits", "out of memory", "infeasible", "impossible" or "does not apply"
  std::string_view verdict() const;
  /// The change of the step relative to the base; nothing if one of them has no step.
  std::optional<double> change_from(const WhatIfRow& base) const;
  double samples_per_second() const;
};

/// The prediction for each question. `refused` is set only if all rules together conflict; other
/// mistakes are thrown as InputError. Files that select nothing have no part in all together.
/// `begin` is called with the name of each.
std::vector<WhatIfRow> what_if_rows(std::vector<WhatIfQuestion> questions,
                                    const std::shared_ptr<const Trace>& trace,
                                    const Scenario& point,
                                    const std::function<void(const std::string&)>& begin = {});

}  // namespace baechi
