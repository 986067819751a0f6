/// Measures: each evaluates a placed step to one number with a unit, plus memory, busy time and
/// moved bytes of the devices. They are computed after placing; placers do not know them.
#pragma once
#include "sim/cluster/device_model.h"
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

inline constexpr std::string_view default_measure = "step_time";

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Measure> make_measure(std::string_view name, Options options,
                                      const std::string& where = {});

/// The OOM report in one line: "gpu0: op 'b' needs 4 B, 2 B is free of ...". `problem` has the
/// graph that was simulated.
std::string describe(const OutOfMemory& oom, const Problem& problem);

/// Fractions, over devices and time. All but `busy` derive from the work of ops: they are empty if
/// no op states any. Fractions of peaks are also empty if the model of a device that runs ops is
/// unknown. Peaks are those of the data sheet, independent of a device's `speed`. Ops without
/// stated work count as 0. Source: TBD (Zhu et al., IISWC 2018), section 3.4.
struct Utilisation {
  std::optional<double> busy{};     ///< fraction of the step in which lane "compute" runs an op
  std::optional<double> flops{};    ///< total of all ops
  std::optional<double> traffic{};  ///< total of all ops: bytes to and from device memory
  /// Time of the flops at the peak of their dtype / step time: the MFU.
  std::optional<double> flops_of_step{};
  std::optional<double> flops_of_busy{};    ///< the same / busy time
  std::optional<double> traffic_of_step{};  ///< time of the traffic at full bandwidth / step time
  /// Fractions of the time of ops in lane "compute", by the bound of each op
  /// (sim/cluster/device_model.h).
  std::optional<double> compute_bound{}, memory_bound{}, launch_bound{};

  std::optional<double> intensity() const;  ///< flops per byte of traffic
  friend bool operator==(const Utilisation&, const Utilisation&) = default;
};

/// The members with their names in files.
inline constexpr std::array<std::pair<std::string_view, std::optional<double> Utilisation::*>, 9>
    utilisation_parts{{{"busy", &Utilisation::busy},
                       {"flops", &Utilisation::flops},
                       {"traffic_bytes", &Utilisation::traffic},
                       {"flops_utilisation", &Utilisation::flops_of_step},
                       {"busy_flops_utilisation", &Utilisation::flops_of_busy},
                       {"memory_utilisation", &Utilisation::traffic_of_step},
                       {"compute_bound", &Utilisation::compute_bound},
                       {"memory_bound", &Utilisation::memory_bound},
                       {"launch_bound", &Utilisation::launch_bound}}};

struct StepUtilisation {
  Utilisation step{};                         ///< of all devices together
  IdVector<DeviceId, Utilisation> devices{};  ///< [num_devices]
};

/// Utilisation of a step of length `step`. `busy`: [num_devices], of lane "compute". `models`:
/// [num_devices], null where unknown. All members are empty if `step` is 0.
StepUtilisation utilisation(const Problem& problem, const Placement& placement,
                            std::span<const DeviceModel* const> models, Duration step,
                            std::span<const Duration> busy);

}  // namespace baechi
