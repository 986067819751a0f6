/// Reads the areas of an accelerator's parts from a file.
#pragma once
#include <string>

#include "sim/accelerator/accelerator.h"

namespace baechi {

/// One of:
/// - CSV with the columns part (tensor_core, vector_core, buffer), size (multipliers, lanes, or a
///   size such as 64 MiB) and area_um2;
/// - the list of whole accelerators that PHAZE's script makes (JSON, packed or not): an array of
///   {num_tc, num_vc, width, depth, width_vc, GLB_Buffer, area}. The parts' areas follow from
///   differences between its entries, and give every entry's area again within 10^-9 of it.
/// Throws InputError for any other content, or a list whose areas are not these sums.
AreaTable read_area_table(const std::string& path);

}  // namespace baechi
