#include "validate/cuda/clock_rate.h"

#include <dlfcn.h>

#include <algorithm>

namespace baechi::validate::replay {

ClockRate::ClockRate() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto by_index =
      reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto info =
      reinterpret_cast<decltype(clock_info_)>(dlsym(library, "nvmlDeviceGetClockInfo"));
  if (init == nullptr || by_index == nullptr || info == nullptr) return;
  if (init() == 0 && by_index(0, &device_) == 0) clock_info_ = info;
}

void ClockRate::sample() {
  constexpr int sm_clock = 1;  // NVML_CLOCK_SM
  unsigned mhz = 0;
  if (clock_info_ == nullptr || clock_info_(device_, sm_clock, &mhz) != 0 || mhz == 0) return;
  lowest_ = lowest_ == 0 ? mhz : std::min(lowest_, mhz);
  highest_ = std::max(highest_, mhz);
}

}  // namespace baechi::validate::replay
