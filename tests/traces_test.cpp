#include <doctest/doctest.h>

#include "traces/format/trace_file.h"

using namespace baechi;

namespace {
Trace parse(const std::string& text) {
  Options none("baechi");
  return read_baechi_trace({.path = "t.json", .text = text}, none);
}
}  // namespace

TEST_SUITE("traces") {
  TEST_CASE("the example of the format's reference reads, and writes as it reads") {
    const Trace t = parse(
        R"({"format": "baechi-trace", "version": 1, "name": "toy", "source": "by hand", "batch": 1,
 "ops": [{"name": "a", "kind": "Conv2D", "phase": "forward", "compute_us": 12.5, "temporary_bytes": 0, "persistent_bytes": 4096,
          "colocation": ["a"], "outputs": [{"bytes": 1024}]},
         {"name": "a_grad", "phase": "backward", "forward": "a", "compute_us": 25}],
 "edges": [{"from": "a", "output": 0, "to": "a_grad"}],
 "controls": []})");
    CHECK(t.graph.num_ops() == 2);
    CHECK(t.graph.op(OpId{1}).forward == OpId{0});
    CHECK(t.graph.op(OpId{0}).compute == Duration{12500});
    CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
  }
}
