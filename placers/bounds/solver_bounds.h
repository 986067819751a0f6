/// Lower bounds of objectives by solvers, and the table of bounds by name.
#pragma once

#include "sim/problem/problem.h"

namespace baechi::bounds {

/// Lower bound on a step under Semantics::event, for any placement and transfer mode: the longest
/// chain of ops, in which all but one of the edges out of an op, and all but one of the edges into
/// an op, take time. On such an edge either the tensor is transferred, or the reader waits for a
/// sibling on the same device; the edge counts as the least of the transfer and of the times of the
/// siblings at either end. If no transfer takes longer than an op, this is m_sct's linear program.
/// Takes as long as m_sct.
/// Source: Hanen and Munier 1995 for the program; the extension to transfers of any length is ours.
Duration communication_bound(const Problem& problem);

/// The memory limits that a bound takes into account.
enum class Limits : std::uint8_t {
  none,
  all_devices,   ///< the weights fit in the memory of every device, as in the engine
  accelerators,  ///< CPU cores have no limit: the model of Tarnawski et al.
};
/// Lower bound on the work of the busiest device: the times of all units, divided over the devices
/// in any fractions for which the weights fit. Only op times count, so it bounds the step time as
/// well as the largest load.
Duration shared_bound(const Problem& problem, Limits limits);

/// The least number of devices, the largest first, whose memory holds all weights; at least the
/// number of units that need over half of the largest memory. Nothing if there are too few devices.
std::optional<std::size_t> devices_needed(const Problem& problem);

struct NamedBound {
  std::string_view name, key, meaning;  ///< `key`: in JSON
  Duration time{};
};

/// All lower bounds on one objective, the quickly computed ones first.
struct NamedBounds {
  std::vector<NamedBound> all;

  Duration best() const;
  std::string_view binding() const;  ///< the name of the largest; ties: the first
};

/// Bounds on the step time. `quick`: those of the problem.
NamedBounds step_bounds(const LowerBounds& quick, const Problem& problem);

/// Bounds on the largest load. A time limit adds the bound that an integer program proves within
/// it.
NamedBounds load_bounds(const LowerBounds& quick, const Problem& problem,
                        std::optional<Duration> time_limit);

}  // namespace baechi::bounds
