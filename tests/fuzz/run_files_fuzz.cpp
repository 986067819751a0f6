/// libFuzzer target: a digit, then bytes as one of the files of a validation run or as a
/// calibration. An accepted file must survive a round trip.

#include "scenarios/read/sections.h"
#include "tests/fuzz/written.h"
#include "tests/validate/run_files_text.h"

namespace {

using namespace baechi;
using namespace baechi::validate;

void survives(const std::string& text, auto parse, auto write) {
  const std::string written = write(parse(text, "fuzz"));
  const std::string again =
      testing::read_again(written, [&] { return write(parse(written, "written")); });
  BAECHI_CHECK(again == written, "{}\n{}", written, again);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  return testing::accepts_or_refuses(data + 1, size - 1, [&](const std::string& text) {
    if (data[0] == '0') return survives(text, parse_machine, machine_text);
    if (data[0] == '1') return survives(text, parse_measurements, measurements_csv);
    if (data[0] == '2') return survives(text, parse_steps, steps_csv);
    if (data[0] == '3') return survives(text, parse_timeline, timeline_csv);
    if (data[0] == '4') return survives(text, parse_prediction, prediction_csv);
    survives(text, parse_calibration, calibration_yaml);
  });
}
