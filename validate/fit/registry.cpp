#include "validate/fit/fit.h"

namespace baechi::validate {

std::string fit_devices(const std::string& folder);

std::span<const FitEntry> fits() {
  static constexpr FitEntry table[] = {
      {"devices", "kinds of devices under four frameworks: shares of peaks, launches, host times",
       "dlexamples/", fit_devices},
  };
  return table;
}

}  // namespace baechi::validate
