/// libFuzzer target: bytes as a plan. An accepted plan must survive a round trip, and have a
/// prediction.

#include "tests/fuzz/written.h"
#include "validate/predictor.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  using namespace baechi::validate;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const ReplayPlan plan = parse_plan(text, "fuzz");
    const std::string written = plan_text(plan);
    const ReplayPlan again =
        testing::read_again(written, [&] { return parse_plan(written, "written"); });
    BAECHI_CHECK(plan_text(again) == written, "{}", written);
    const Replay replay = predict(plan, timing_of(plan, nullptr, {}));
    BAECHI_CHECK(peaks(plan, replay).size() == static_cast<std::size_t>(plan.devices), "{}",
                 written);
    BAECHI_CHECK(replay.step() >= Duration::zero(), "{}", written);
  } catch (const BadInput&) {
  }
  return 0;
}
