/// What was written is read again.
#pragma once
#include <string>

#include "sim/error.h"

namespace baechi::testing {

/// `read()` of what this program wrote: that it is refused is a mistake of ours, not of the input.
auto read_again(const std::string& written, auto read) {
  try {
    return read();
  } catch (const InputError& e) {
    BAECHI_CHECK(false, "{}\n{}", e.what(), written);
    throw;
  }
}

}  // namespace baechi::testing
