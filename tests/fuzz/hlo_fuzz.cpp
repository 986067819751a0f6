#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baechi::testing::check_round_trip(data, size, "hlo");
  return 0;
}
