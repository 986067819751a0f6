// The importer `hlo`: one step as HLO and as StableHLO.

#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/import/rank_files.h"

namespace {

Trace parsed(const std::string& text) {
  TextFile file("t.hlo", text);
  return read_trace(file, "hlo");
}
OpGraph hlo_graph(const std::string& text) { return parsed(text).graph; }

}  // namespace

TEST_SUITE_BEGIN("hlo");
// dot [8, 16] x [16, 32] - fusion (relu) - all-reduce of 4 - a loop of 5 additions
TEST_CASE("HLO: one op per instruction of the entry; a fusion or a loop is one op") {
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
TEST_CASE("HLO in the style of XLA's tests: comments, long instructions, no named entry") {
  const Trace trace = imported(seed("hlo/wide.hlo"), "");
  CHECK(trace.format == "hlo");
  const OpGraph& g = trace.graph;
  CHECK(g.num_ops() == 10);  // parameters, concatenate, frobnicate, constant, while
  CHECK(g.in_edges(*g.find("all")).size() == 6);
  REQUIRE(g.in_edges(*g.find("odd")).size() == 1);
  CHECK(g.in_edges(*g.find("odd")).front() == g.out_edges(*g.find("all")).front());
  CHECK(g.work(*g.find("odd")).flops == 24);
  // Seven iterations by the condition, of four additions and one comparison.
  CHECK(g.work(*g.find("loop")).flops == 7 * (4 + 1));
  CHECK(has_note(trace, "no entry is named: 'e' is taken, the last of 3 computations"));
  CHECK(has_note(trace,
                 "warning: operations that are none of HLO's, by one flop per element: "
                 "frobnicate x1"));
}

TEST_CASE("StableHLO: the same step; a call is one op") {
  const Trace trace = imported(seed("hlo/small.mlir"), "");
  CHECK(trace.name == "jit_step");
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

TEST_CASE("HLO: the work of computations that call each other is counted, 1000 deep at most") {
  const auto chain = [](int calls) {
    std::string text =
        "HloModule m\n%f0 (x: f32[8]) -> f32[8] {\n  %x = f32[8]{0} parameter(0)\n"
        "  ROOT %y = f32[8]{0} negate(%x)\n}\n";
    for (int i = 1; i <= calls; ++i)
      text += fmt::format(
          "{}%f{} (x: f32[8]) -> f32[8] {{\n  %x = f32[8]{{0}} parameter(0)\n"
          "  ROOT %y = f32[8]{{0}} call(%x), to_apply=%f{}\n}}\n",
          i == calls ? "ENTRY " : "", i, i - 1);
    const OpGraph g = hlo_graph(text);
    return g.work(*g.find("y")).flops;
  };
  for (const int calls : {1, 51, 52, 1000}) CHECK(chain(calls) == 8);
  CHECK_THROWS_WITH_AS(chain(1001), "t.hlo: computations call each other more than 1000 deep",
                       InputError);
}

TEST_CASE("one mapping from type words of frameworks to number formats") {
  for (const auto& [word, format] :
       std::map<std::string_view, Precision>{{"f32", Precision::fp32},
                                             {"f64", Precision::fp32},
                                             {"f16", Precision::fp16},
                                             {"Tensor(c10::Half)", Precision::fp16},
                                             {"bf16", Precision::bf16},
                                             {"Tensor(c10::BFloat16)", Precision::bf16},
                                             {"f8e4m3fn", Precision::fp8},
                                             {"f8E5M2", Precision::fp8},
                                             {"float8e5m2", Precision::fp8},
                                             {"Tensor(c10::Float8_e4m3fn)", Precision::fp8},
                                             {"f6E2M3FN", Precision::fp8},  // as fast
                                             {"f4E2M1FN", Precision::fp4},
                                             {"Tensor(float)", Precision::fp32},
                                             {"ui8", Precision::fp32},
                                             {"float4e2m1", Precision::fp4}}) {
    CAPTURE(word);
    CHECK(precision_of_type(word) == format);
  }
  // fp8 in a computation of its own: formats narrower than bf16 have a place in its sums.
  const OpGraph g = hlo_graph(R"(HloModule m
%inner (p: f8e4m3fn[64,64]) -> bf16[64,64] {
  %p = f8e4m3fn[64,64]{1,0} parameter(0)
  ROOT %d = bf16[64,64]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY %main (a: f8e4m3fn[64,64]) -> bf16[64,64] {
  %a = f8e4m3fn[64,64]{1,0} parameter(0)
  %b = bf16[64,64]{1,0} parameter(1)
  %mixed = bf16[64,64]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %f = bf16[64,64]{1,0} fusion(%a), kind=kOutput, calls=%inner
}
)");
  CHECK(g.work(*g.find("f")).precision == Precision::fp8);
  CHECK(g.work(*g.find("mixed")).precision == Precision::bf16);  // the wider operand's
}

TEST_CASE("HLO: the flops and traffic of each kind of instruction") {
  const std::string module = R"(HloModule m
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
%negated (p: f32[64,128]) -> f32[64,128] {
  %p = f32[64,128] parameter(0)
  ROOT %n = f32[64,128] negate(%p)
}
%twice (p: f32[64,128]) -> f32[64,128] {
  %p = f32[64,128] parameter(0)
  %d = f32[64,128] add(%p, %p)
  ROOT %e = f32[64,128] add(%d, %d)
}
%to_five (p: f32[64,128]) -> pred[] {
  %five = s32[] constant(5)
  ROOT %less = pred[] compare(%five, %five), direction=LT
}
%endless (p: f32[64,128]) -> pred[] {
  ROOT %yes = pred[] constant(true)
}
ENTRY %main () -> f32[] {
  %x = f32[64,128] parameter(0)
  %y = f32[64,128] parameter(1)
  %zero = f32[] parameter(2)
  %i = s32[] parameter(3)
  %rows = s32[3,1] parameter(4)
  %row = f32[3,128] parameter(5)
  %half = bf16[128,256] parameter(6)
  %four = s4[9] parameter(7)
  %complex = c128[2] parameter(8)
  %weights = f32[4,128,256] parameter(9)
  %sizes = s32[4] parameter(10)
  %image = f32[8,6,10,10] parameter(11)
  %patches = f32[8,7,5,5] parameter(12)
  %pooled = f32[8,6,5,5] parameter(13)
  %filter = f32[7,6,3,3] parameter(14)
  %depthwise = f32[6,1,3,3] parameter(15)
  %nhwc = f32[8,10,10,6] parameter(16)
  %hwio = f32[1,1,6,7] parameter(17)
  ROOT %result = )";
  const std::string function = R"(module @m {
  func.func private @twice(%p: tensor<3x128xf32>) -> tensor<3x128xf32> {
    %d = stablehlo.add %p, %p : tensor<3x128xf32>
    %e = stablehlo.add %d, %d : tensor<3x128xf32>
    return %e : tensor<3x128xf32>
  }
  func.func public @main(%image: tensor<8x6x10x10xf32>, %patches: tensor<8x7x5x5xf32>, %pooled: tensor<8x6x5x5xf32>, %filter: tensor<7x6x3x3xf32>, %zero: tensor<f32>, %row: tensor<3x128xf32>) {
    %result = )",
                    region = R"(({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }))";
  const std::string rows = read_file(source_dir() + "/tests/traces/import/hlo_instructions.txt");
  for (const auto line : parts(rows, '\n')) {
    CAPTURE(line);
    if (line.starts_with('#')) continue;
    const auto columns = parts(line, '|');
    std::string one(columns[0]);
    const bool stable = one.find("stablehlo.") < 2;
    if (const std::size_t at = one.find("REGION"); at != std::string::npos)
      one.replace(at, 6, region);
    const OpGraph g =
        hlo_graph(stable ? function + one + "\n    return\n  }\n}\n" : module + one + "\n}\n");
    const OpWork work = g.work(*g.find("result"));
    CHECK(fmt::format(" {} | {}", work.flops, work.traffic.count) ==
          fmt::format("{}|{}", columns[1], columns[2]));
  }
}
