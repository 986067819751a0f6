/// The best pipeline whose parts follow one another in a line of all blocks: quick, seldom far off.
#pragma once
#include <optional>

#include "placers/exact/pipeline_program.h"

namespace baechi {

/// A pipeline in ops.
struct Plan {
  Duration load{};
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]
};
Plan in_ops(const Pipeline& pipeline, const Blocks& blocks, const OpGraph& graph);

/// The best below `bound` over several lines: topological orders in which what became ready last
/// comes next, from the first or the last block on, with leaves apart and joined; nothing if there
/// is none. Takes time in the square of the blocks.
/// Source: Tarnawski et al., NeurIPS 2020, linearization. Differs: several orders, not one.
std::optional<Plan> best_linear_plan(const Problem& problem, const ColocationUnits& units,
                                     const std::vector<DeviceSort>& sorts, Duration bound);

/// No device can have less than this to do in the busiest one: the work of all blocks on their
/// fastest sorts, shared out at will, and the longest block on its fastest. Rounded up.
Duration load_bound(const Blocks& blocks, const std::vector<DeviceSort>& sorts);

/// For the InfeasibleError: a unit that no device can take, or that no split fits.
std::string why_no_plan(const Problem& problem, const ColocationUnits& units,
                        const std::vector<DeviceSort>& sorts);

}  // namespace baechi
