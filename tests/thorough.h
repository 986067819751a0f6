/// How thorough the long test cases are.
#pragma once
#include <cstdlib>

namespace baechi::testing {

/// Whether BAECHI_THOROUGH is set; `./dev check thorough` sets it. If true, the long test cases try
/// all their inputs; otherwise only a part that takes seconds.
inline bool thorough() {
  return std::getenv("BAECHI_THOROUGH") != nullptr;  // NOLINT(concurrency-mt-unsafe): read only
}

}  // namespace baechi::testing
