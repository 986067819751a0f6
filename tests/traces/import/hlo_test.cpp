// The importer `hlo`: one step in HLO's text and in StableHLO's.

#include <doctest/doctest.h>

#include "tests/traces/import/imported.h"

using namespace baechi;
using namespace baechi::testing;

TEST_SUITE("hlo") {
  // dot [8, 16] x [16, 32] - fusion (relu) - all-reduce of 4 - a loop of 5 additions
  TEST_CASE("HLO text: an op per instruction of the entry; a fusion and a loop are one") {
    const Trace trace = imported(seed("hlo/small.hlo"), "");
    CHECK(trace.format == "hlo");
    CHECK(trace.name == "jit_step");
    const OpGraph& g = trace.graph;
    CHECK(g.num_ops() == 7);  // two parameters, dot, fusion, all-reduce, constant, while
    const OpId dot = *g.find("dot.3");
    CHECK(g.work(dot).flops == 2 * 8 * 32 * 16);
    CHECK(g.work(dot).traffic == Bytes{(8 * 16 + 16 * 32 + 8 * 32) * 4});
    CHECK(g.module(dot) == "layer1.dense");
    CHECK(g.op(*g.find("Arg_1.2")).persistent == Bytes{16 * 32 * 4});
    CHECK(g.work(*g.find("fusion")).flops == 8 * 32);  // the broadcast moves, the maximum computes
    CHECK(g.work(*g.find("fusion")).traffic == Bytes{2 * 8 * 32 * 4});
    // Five times 256 additions and one comparison.
    CHECK(g.work(*g.find("while")).flops == 5 * (8 * 32 + 1));
    REQUIRE(g.collectives().size() == 1);
    CHECK(g.collectives()[CollectiveId{0}].ranks == 4);
    CHECK(g.collectives()[CollectiveId{0}].bytes == Bytes{8 * 32 * 4});
    CHECK(has_note(trace, "1 loops are an op each, 0 of them without"));
  }

  // six parameters of 4 - concatenate to 24 - a barrier - an unknown operation; and a loop
  TEST_CASE("HLO as XLA's own tests write it: comments, long instructions, no entry named") {
    const Trace trace = imported(seed("hlo/wide.hlo"), "");
    CHECK(trace.format == "hlo");
    const OpGraph& g = trace.graph;
    CHECK(g.num_ops() == 10);  // parameters, concatenate, frobnicate, constant, while
    CHECK(g.in_edges(*g.find("all")).size() == 6);
    REQUIRE(g.in_edges(*g.find("odd")).size() == 1);
    CHECK(g.in_edges(*g.find("odd")).front() == g.out_edges(*g.find("all")).front());
    CHECK(g.work(*g.find("odd")).flops == 24);
    // Seven, as the condition compares: four additions and one comparison each.
    CHECK(g.work(*g.find("loop")).flops == 7 * (4 + 1));
    CHECK(has_note(trace, "no entry is named: 'e' is taken, the last of 3 computations"));
    CHECK(has_note(trace,
                   "warning: operations that are none of HLO's, by one flop per element: "
                   "frobnicate x1"));
  }

  TEST_CASE("StableHLO: the same step; a call is one op") {
    const Trace trace = imported(seed("hlo/small.mlir"), "");
    const OpGraph& g = trace.graph;
    CHECK(g.num_ops() == 8);  // two parameters, dot, call, all_reduce, constant, while, tanh
    CHECK(g.work(*g.find("0")).flops == 2 * 8 * 32 * 16);
    CHECK(g.work(*g.find("1")).flops == 8 * 32);
    CHECK(g.work(*g.find("3")).flops == 5 * (8 * 32 + 1));
    CHECK(g.work(*g.find("4")).flops == 8 * 32);
    REQUIRE(g.collectives().size() == 1);
    CHECK(g.collectives()[CollectiveId{0}].ranks == 4);
    // The loop reads the constant and the sum; tanh reads its second result.
    CHECK(g.in_edges(*g.find("3")).size() == 2);
    REQUIRE(g.in_edges(*g.find("4")).size() == 1);
    CHECK(g.tensor(g.edge(g.in_edges(*g.find("4")).front()).tensor).size == Bytes{8 * 32 * 4});
  }
}
