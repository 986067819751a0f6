#pragma once

#include "sim/error.h"

namespace baechi::testing {

/// read() of text written by this program, for which an InputError is a bug.
auto read_again(const std::string& written, auto read) {
  try {
    return read();
  } catch (const InputError& e) {
    BAECHI_CHECK(false, "{}\n{}", e.what(), written);
    throw;
  }
}

}  // namespace baechi::testing
