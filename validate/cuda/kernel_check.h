/// Checks the results of the kernels.
#pragma once
#include <string>

namespace baechi::validate::replay {

/// Compares gemm, ew and link with the host's results. Returns the mistake, or "". Throws
/// CudaError.
std::string wrong_kernel();

}  // namespace baechi::validate::replay
