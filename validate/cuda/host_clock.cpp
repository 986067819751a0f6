#include "validate/cuda/machine.h"

namespace baechi::validate::replay {

std::int64_t host_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace baechi::validate::replay
