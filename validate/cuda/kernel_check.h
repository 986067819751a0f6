/// Do the kernels compute what they say?
#pragma once
#include <string>

namespace baechi::validate::replay {

/// Compares gemm, ew and link with the host's results. "" or what is wrong. Throws CudaError.
std::string wrong_kernel();

}  // namespace baechi::validate::replay
