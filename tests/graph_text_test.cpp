#include "tests/graph_text.h"

#include <stdexcept>

#include "tests/prelude.h"

TEST_SUITE_BEGIN("graph text");
TEST_CASE("chains of ops and tensors; a tensor with two readers is named twice") {
  const OpGraph g = graph_of("a10 -t100> b20; a -t> c30; b -50> c");
  REQUIRE(g.num_ops() == 3);
  CHECK(g.name(OpId{2}) == "c");
  CHECK(g.op(OpId{2}).compute == 30ns);
  CHECK(g.num_tensors() == 2);
  CHECK(g.num_edges() == 3);
  CHECK(g.outputs(OpId{0}).size() == 1);
  CHECK(g.in_edges(OpId{2}).size() == 2);
}

TEST_CASE("any other text is rejected") {
  for (const char* text : {"a", "a10 b20", "a10 -x> b20", "a10 -1> a20", "a10 -1>", "a1b"})
    CHECK_THROWS_AS(graph_of(text), std::invalid_argument);
}
