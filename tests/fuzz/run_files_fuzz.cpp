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
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case '0':
        survives(text, parse_machine, machine_text);
        break;
      case '1':
        survives(text, parse_measurements, measurements_csv);
        break;
      case '2':
        survives(text, parse_steps, steps_csv);
        break;
      case '3':
        survives(text, parse_timeline, timeline_csv);
        break;
      case '4':
        survives(text, parse_prediction, prediction_csv);
        break;
      default:
        survives(text, parse_calibration, calibration_yaml);
    }
  } catch (const InputError&) {
  }
  return 0;
}
