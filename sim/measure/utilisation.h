/// How much of its devices a step uses: of their time, arithmetic and memory bandwidth.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/cluster/device_model.h"
#include "sim/problem/problem.h"

namespace baechi {

/// Fractions, over devices and time. All but `busy` follow from the work that ops state: they are
/// empty if no op states any. Fractions of peaks are also empty if the model of a device that runs
/// ops is unknown. Peaks are the data sheet's; a device's `speed` does not change them. Ops that
/// state no work count as doing none.
/// Source: TBD (Zhu et al., IISWC 2018), section 3.4.
struct Utilisation {
  std::optional<double> busy{};     ///< of the step's time: lane "compute" runs an op
  std::optional<double> flops{};    ///< of all ops
  std::optional<double> traffic{};  ///< of all ops: bytes to and from device memory
  /// The time that the flops take at the peak of their number format, of the step's time.
  std::optional<double> flops_of_step{};
  std::optional<double> flops_of_busy{};    ///< the same, of busy time
  std::optional<double> traffic_of_step{};  ///< the time of the traffic at full bandwidth, so
  /// Parts of the time of the ops in lane "compute", by the bound of each op (sim/cluster/bound.h).
  std::optional<double> compute_bound{}, memory_bound{}, launch_bound{};

  std::optional<double> intensity() const;  ///< flops per byte of traffic
  friend bool operator==(const Utilisation&, const Utilisation&) = default;
};

/// Each part with its word in files.
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

/// Utilisation of a step of length `step`. Lane "compute" of each device ran ops for `busy`
/// [num_devices]. `models` [num_devices]: null where unknown. All is empty if `step` is 0.
StepUtilisation utilisation(const Problem& problem, const Placement& placement,
                            std::span<const DeviceModel* const> models, Duration step,
                            std::span<const Duration> busy);

}  // namespace baechi
