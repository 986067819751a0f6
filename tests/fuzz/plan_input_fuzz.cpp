#include "placers/planners/staged_plan.h"
#include "sim/error.h"
#include "traces/format/compressed_file.h"

/// libFuzzer target: any text is a planner's input or an InputError.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    baechi::TextFile file("fuzz.json", std::string_view(reinterpret_cast<const char*>(data), size));
    baechi::planners::read_planner_input(file);
  } catch (const baechi::InputError&) {
  }
  return 0;
}
