/// libFuzzer target, one for each importer: bytes as a file for the importer BAECHI_IMPORTER.
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baechi::testing::check_round_trip(data, size, BAECHI_IMPORTER);
  return 0;
}
