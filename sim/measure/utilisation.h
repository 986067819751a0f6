/// Utilisation of devices by a step: of their time, arithmetic and memory bandwidth.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/cluster/device_model.h"
#include "sim/problem/problem.h"

namespace baechi {

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
