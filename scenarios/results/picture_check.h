/// Whether the picture of a step, from a file, is what sim/report/picture.h says.
#pragma once
#include <string>

namespace baechi {

/// Throws std::runtime_error if `picture` is no JSON, is nested more deeply than pictures are, or
/// lacks what a page or a plot reads.
void check_picture(const std::string& picture);

}  // namespace baechi
