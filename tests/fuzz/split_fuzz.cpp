/// libFuzzer target: bytes as a split of Tarnawski et al. An accepted split places every op on an
/// existing device.

#include "placers/files/placement_file.h"
#include "sim/error.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  OpGraphBuilder b;
  for (const char* name : {"node1", "node2", "node1grad"}) b.add_op({.name = name});
  b.colocate(OpId{0}, "one");
  b.colocate(OpId{2}, "one");
  const OpGraph graph = std::move(b).build();
  const Cluster cluster = Cluster::uniform(2, Bytes{1}, {.bandwidth = {1e9}, .latency = {}});
  const ProfiledCosts costs(graph, cluster);
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    if (!is_split(text)) return 0;
    const Placement placement = parse_split(text, "fuzz", {graph, cluster, costs});
    BAECHI_CHECK(placement.device.size() == graph.num_ops(), "{}", text);
    for (const DeviceId d : placement.device) BAECHI_CHECK(index(d) < 2, "{}", text);
  } catch (const InputError&) {
  } catch (const InfeasibleError&) {
  }
  return 0;
}
