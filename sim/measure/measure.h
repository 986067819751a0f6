/// Measures: each evaluates a placed step to one number with a unit, plus memory, busy time and
/// moved bytes of the devices. They are computed after placing; placers do not know them.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/options.h"
#include "sim/problem/problem.h"
#include "sim/problem/step.h"
#include "sim/transform/transform.h"

namespace baechi {

/// The value of a measure for one placement.
struct Measured {
  std::optional<Duration> value{};      ///< less is better; nothing if there is none
  bool out_of_memory = false;           ///< there is no value because memory ran out
  std::string why{};                    ///< why there is no value, one line; else ""
  std::vector<Bytes> peaks{};           ///< [num_devices]; empty: memory is not measured
  std::optional<PeakMemory> at_peak{};  ///< on the device with the highest peak; ties: the first
  std::vector<Duration> busy{};         ///< [num_devices] DeviceUse::busy; empty: not measured
  std::optional<Bytes> moved{};         ///< between devices; nothing: not measured

  std::optional<Bytes> peak() const;  ///< the highest of `peaks`
};

class Measure {
 public:
  virtual ~Measure() = default;
  /// Evaluates the placed step under the engine options of `problem`.
  virtual Measured of(const Problem& problem, const Placement& placement) const = 0;
  /// Throws InputError if no placement of `step` can have a value because options conflict, or if
  /// `replicates` and none with replicas can. `transforms`: those that made `step` after placing.
  virtual void check(const Problem& /*step*/,
                     std::span<const std::shared_ptr<const Transform>> /*transforms*/,
                     bool /*replicates*/) const {}
  /// A lower bound of the value of every placement; nothing if none is known. `bounds`: of the
  /// step's graph.
  virtual std::optional<Duration> bound(const LowerBounds& bounds) const = 0;
};

using MakeMeasure = std::unique_ptr<Measure>(Options&);
struct MeasureEntry {
  std::string_view name;     ///< as written in a scenario: `measure: [step_time, max_load]`
  std::string_view summary;  ///< one line for `list measures`
  std::string_view source;   ///< paper and section
  std::string_view unit;     ///< of the value: "us per sample"
  MakeMeasure* make;
};
std::span<const MeasureEntry> measures();

/// The default measure of a scenario.
inline constexpr std::string_view default_measure = "step_time";

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Measure> make_measure(std::string_view name, Options options,
                                      const std::string& where = {});

/// The OOM report in one line: "gpu0: op 'b' needs 4 B, 2 B is free of ...". `problem` has the
/// graph that was simulated.
std::string describe(const OutOfMemory& oom, const Problem& problem);

}  // namespace baechi
