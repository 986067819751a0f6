#include "scenarios/studies/serving/packrat.h"
#include "tests/fuzz/written.h"

/// libFuzzer target: any text gives latencies within their limits, or an InputError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi::serving;
  return baechi::testing::accepts_or_refuses(data, size, [](const std::string& text) {
    for (const LatencyProfile& profile : read_latency_profiles(text, "fuzz.csv"))
      for (const auto& [share, latency] : profile.latency)
        if (share.first < 1 || share.first > most_threads || share.second < 1 ||
            share.second > most_batch || latency <= baechi::Duration{})
          std::abort();
  });
}
