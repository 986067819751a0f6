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

/// Runs `check` on the bytes as text, which it may refuse by an InputError. Returns what a target
/// of libFuzzer does.
int accepts_or_refuses(const std::uint8_t* data, std::size_t size, auto check) {
  try {
    check(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const InputError&) {
  }
  return 0;
}

}  // namespace baechi::testing
