/// libFuzzer target: bytes as a placement file. An accepted file must survive a round trip.

#include "placers/files/placement_file.h"
#include "tests/fuzz/written.h"
#include "tests/small_graphs.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  const OpGraph graph = baechi::testing::one_tensor_two_readers();
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Placement placement = parse_placement(text, "fuzz", graph, 2);
    const std::string written = placement_json(placement, graph, "fuzz", 2);
    const Placement again =
        testing::read_again(written, [&] { return parse_placement(written, "fuzz", graph, 2); });
    BAECHI_CHECK(again.device == placement.device, "{}", written);
    BAECHI_CHECK(placement_json(again, graph, "fuzz", 2) == written, "{}", written);
  } catch (const InputError&) {
  } catch (const InfeasibleError&) {
  }
  return 0;
}
