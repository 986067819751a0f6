/// Checks the picture of a step, from a file, against the format of sim/report/timeline.h.
#pragma once
#include <string>

namespace baechi {

/// Throws std::runtime_error if `picture` is no JSON, is nested more deeply than pictures are, or
/// lacks a key that a page or a plot reads.
void check_picture(const std::string& picture);

}  // namespace baechi
