/// The difference of equal plans that run again: no claim can be below this noise floor.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "validate/validation_run.h"

namespace baechi::validate {

struct Floor {
  std::string between;  ///< "visits", "cards", or "runs" where machine.txt does not say which card
  std::string path;     ///< of the other run
  std::size_t plans = 0;
  double median = 0.0, p95 = 0.0;  ///< of |median step there / median step here - 1|
};

/// Over the plans of both runs with equal hashes, in modes that both replayed. A mode without such
/// a plan has plans == 0. Cards are told apart by the key 'card' of machine.txt.
Floor floor_between(const ValidationRun& here, const ValidationRun& there);

}  // namespace baechi::validate
