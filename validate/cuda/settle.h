/// Tests, on this GPU, the unproven assumptions of the design.
#pragma once
#include <string>

namespace baechi::validate::replay {

/// Writes settled.txt, a line per question, and prints it. Exit code: 1 if an answer is bad for the
/// method. Throws Skip where there is no usable GPU.
int settle(const std::string& folder, int devices);

}  // namespace baechi::validate::replay
