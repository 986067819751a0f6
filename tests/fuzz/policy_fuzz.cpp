/// libFuzzer target: any bytes as a policy, and as training that was stopped. What is accepted is
/// written and read again as it was.
#include <cstddef>
#include <cstdint>
#include <string>

#include "placers/learned/policy_file.h"
#include "sim/error.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  using namespace baechi::learned;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Policy policy = parse_policy(text, "fuzz");
    BAECHI_CHECK(policy.weights.size() == list_network().num_weights(), "{}", text);
    const std::string written = policy_text(policy);
    BAECHI_CHECK(policy_text(parse_policy(written, "fuzz")) == written, "{}", text);
  } catch (const InputError&) {
  }
  try {
    const std::string written = stopped_text(parse_stopped(text, "fuzz"));
    BAECHI_CHECK(stopped_text(parse_stopped(written, "fuzz")) == written, "{}", text);
  } catch (const InputError&) {
  }
  return 0;
}
