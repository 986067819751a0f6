/// The harness and the simulator share no code, but must agree on what is a plan.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "sim/error.h"
#include "validate/cuda/plan.h"
#include "validate/replay_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  bool harness = true;
  bool simulator = true;
  std::istringstream in(text);
  replay::Plan plan;
  try {
    plan = replay::read_plan(in, "p");
  } catch (const replay::BadInput&) {
    harness = false;
  }
  try {
    const baechi::ReplayPlan other = baechi::parse_plan(text, "p");
    if (harness && (other.tasks.size() != plan.tasks.size() || other.name != plan.name))
      std::abort();
  } catch (const baechi::InputError&) {
    simulator = false;
  }
  if (harness != simulator) std::abort();
  return 0;
}
