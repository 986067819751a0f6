#include "placers/planners/staged_plan.h"
#include "tests/fuzz/written.h"
#include "traces/format/compressed_file.h"

/// libFuzzer target: any text is a planner's input or an InputError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return baechi::testing::accepts_or_refuses(data, size, [](const std::string& text) {
    baechi::TextFile file("fuzz.json", text);
    baechi::planners::read_planner_input(file);
  });
}
