/// Reads the areas of an accelerator's parts from a file.
#pragma once
#include <string>

#include "sim/accelerator/accelerator.h"

namespace baechi {

/// Reads one of:
/// - CSV with the columns part (tensor_core, vector_core, buffer), size (multipliers, lanes, or a
///   size such as 64 MiB) and area_um2;
/// - the list of whole accelerators of PHAZE's script (JSON, compressed or not): an array of
///   {num_tc, num_vc, width, depth, width_vc, GLB_Buffer, area}. The parts' areas are computed from
///   differences of its entries, and reproduce every entry's area within a relative 10^-9.
/// Throws InputError for any other content, or a list whose areas are not such sums.
AreaTable read_area_table(const std::string& path);

}  // namespace baechi
