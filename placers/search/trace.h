/// The improvements of a search as a CSV file.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/objective/objective.h"

namespace baechi::search {

/// A placement better than all before it.
struct SearchStep {
  std::size_t evaluation = 0;  ///< number, over all chains; 0: the portfolio
  Score score{};
  std::string_view by;  ///< the move, or the placer
};

/// Writes `steps` as CSV: evaluation, objective_us, feasible, by. Written to a temporary file and
/// renamed. Throws InputError if it cannot be written.
void write_search_trace(const std::string& path, const std::vector<SearchStep>& steps);

}  // namespace baechi::search
