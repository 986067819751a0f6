/// How much the long cases try.
#pragma once
#include <cstdlib>

namespace baechi::testing {

/// Whether BAECHI_THOROUGH is set, as `./dev check thorough` sets it: the long cases then try all
/// that they have, instead of a part that takes seconds.
inline bool thorough() {
  return std::getenv("BAECHI_THOROUGH") != nullptr;  // NOLINT(concurrency-mt-unsafe): read only
}

}  // namespace baechi::testing
