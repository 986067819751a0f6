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

// [8, 4096] x [4096, 4096] of bf16, with 32 MiB of scratch as a second result.
TEST_CASE("cuBLAS's scratch buffer is workspace: it is neither transferred nor kept") {
  const OpGraph g = hlo_graph(
      "HloModule t\n\nENTRY main {\n  a = bf16[8,4096]{1,0} parameter(0)\n"
      "  w = bf16[4096,4096]{1,0} parameter(1)\n"
      "  g0 = (bf16[8,4096]{1,0}, s8[33554432]{0}) custom-call(a, w), "
      "custom_call_target=\"__cublas$lt$matmul\", backend_config={\"gemm_backend_config\":{"
      "\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],"
      "\"rhs_contracting_dimensions\":[\"0\"],\"lhs_batch_dimensions\":[],"
      "\"rhs_batch_dimensions\":[]}}}\n"
      "  ROOT o = bf16[8,4096]{1,0} get-tuple-element(g0), index=0\n}\n");
  const OpId product = *g.find("g0");
  CHECK(g.work(product).flops == std::int64_t{2} * 8 * 4096 * 4096);
  CHECK(g.work(product).traffic == Bytes{2 * (8 * 4096 + 4096 * 4096 + 8 * 4096)});
  CHECK(g.op(product).temporary == Bytes{33554432});
  Bytes kept{};
  for (const TensorId t : g.outputs(product)) kept += g.tensor(t).size;
  CHECK(kept == Bytes{2 * 8 * 4096});
}

TEST_CASE("an array of 2^120 elements is rejected with its line") {
  CHECK_THROWS_WITH_AS(
      hlo_graph("HloModule t\n\nENTRY main {\n  ROOT a = f32[1099511627776,1099511627776,"
                "1099511627776]{2,1,0} parameter(0)\n}\n"),
      "t.hlo:4:1: 'a' is an array of 2^50 bytes or more", InputError);
}

TEST_CASE("a constant is persistent, like a parameter") {
  const OpGraph g = hlo_graph(
      "module @m {\n  func.func public @main(%arg0: tensor<2x4xf32>) -> tensor<2x8xf32> {\n"
      "    %w = stablehlo.constant dense<1.0> : tensor<4x8xf32>\n"
      "    %0 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0] : "
      "(tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>\n"
      "    return %0 : tensor<2x8xf32>\n  }\n}\n");
  Bytes weights{};
  for (const OpId v : g.ops())
    if (g.kind(v) == "constant") {
      weights += g.op(v).persistent;
      for (const TensorId t : g.outputs(v)) CHECK(g.tensor(t).reference);
    }
  CHECK(weights == Bytes{4 * 8 * 4});
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

TEST_CASE("StableHLO may have a mesh of Shardy; names have all letters and digits") {
  TextFile file("t.mlir", R"(sdy.mesh @mesh = <["x"=2]>
module @f {
  sdy.mesh @other = <["y"=2]>
  func.func public @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %a = stablehlo.tanh %arg0 : tensor<8x16xf32>
    %az = stablehlo.tanh %a : tensor<8x16xf32>
    %aZ = stablehlo.tanh %a : tensor<8x16xf32>
    %a9 = stablehlo.tanh %a : tensor<8x16xf32>
    return %a9 : tensor<8x16xf32>
  }
}
)");
  const OpGraph g = read_trace(file).graph;
  CHECK(g.num_ops() == 5);
  CHECK(g.out_edges(OpId{1}).size() == 3);
}

TEST_CASE("StableHLO: the arguments of a function and the types of an operation may be lines") {
  const OpGraph g = parsed(R"(module @f {
  func.func @main(
      %x: tensor<8x16xf32> {my.name = "x of two"},
      %y: tensor<16x4xf32>)
      -> tensor<8x4xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>)
      -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
)")
                        .graph;
  REQUIRE(g.num_ops() == 3);
  CHECK(g.work(*g.find("0")).flops == 2 * 8 * 4 * 16);
  CHECK(g.op(*g.find("y")).persistent == Bytes{16 * 4 * 4});
}

// Two regions with the same names: a product of the local parts, summed over two devices; tanh of
// the sum, which the second reads from outside; and a call by its decomposition.
TEST_CASE("StableHLO: Shardy's regions are part of their function, with one device's arrays") {
  const Trace trace = parsed(R"(module @f attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>} loc("x"), %arg1: tensor<16x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.sharding_constraint %arg0 <@m, [{}, {"x"}]> : tensor<8x16xf32> loc(#loc3)
    %1 = sdy.manual_computation(%0, %arg1) in_shardings=[<@m, [{}, {"x"}]>, <@m, [{"x"}, {}]>] out_shardings=[<@m, [{}, {}]>] manual_axes={"x"} (%arg2: tensor<8x8xf32> loc("a"(#loc4)), %arg3: tensor<8x4xf32>) {
      %4 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      %5 = "stablehlo.all_reduce"(%4) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %6 = stablehlo.add %arg4, %arg5 : tensor<f32>
        stablehlo.return %6 : tensor<f32>
      }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      sdy.return %4, %5 : tensor<8x4xf32>, tensor<8x4xf32> loc(#loc4)
    } : (tensor<8x16xf32>, tensor<16x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) loc(#loc5)
    %2 = sdy.named_computation<"g">(%1#1) (%arg2: tensor<8x4xf32>) {
      %4 = stablehlo.tanh %1#0 : tensor<8x4xf32>
      %5 = stablehlo.add %4, %arg2 : tensor<8x4xf32>
      sdy.return %5 : tensor<8x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.composite "my.product" %2 {composite_attributes = {n = 4 : i64}, decomposition = @product} : (tensor<8x4xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
  func.func private @product(%arg0: tensor<8x4xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
)");
  const OpGraph& g = trace.graph;
  CHECK(g.num_ops() == 7);  // two parameters, product, sum, tanh, addition, composite
  const OpId product = *g.find("1/4"), sum = *g.find("1/5"), added = *g.find("2/5");
  CHECK(g.work(product).flops == 2 * 8 * 8 * 4);
  CHECK(g.work(*g.find("3")).flops == 2 * 8 * 8 * 4);
  const auto reads = [&](OpId reader, OpId from) {
    return std::ranges::any_of(
        g.in_edges(reader), [&](EdgeId e) { return g.tensor(g.edge(e).tensor).producer == from; });
  };
  CHECK(reads(product, *g.find("arg0")));
  CHECK(reads(product, *g.find("arg1")));
  CHECK(reads(*g.find("2/4"), product));
  CHECK_FALSE(reads(*g.find("2/4"), sum));
  CHECK(reads(added, sum));
  CHECK(reads(*g.find("3"), added));
  REQUIRE(g.collectives().size() == 1);
  CHECK(g.collectives()[CollectiveId{0}].ranks == 2);
  CHECK(has_note(trace, "StableHLO is the whole program, before it is partitioned"));
  CHECK_FALSE(has_note(trace, "none of HLO's"));
}

TEST_CASE("HLO: 'all devices' are those of other groups; without any number there is a warning") {
  const auto module = [](const std::string& groups) {
    return parsed(
        "HloModule m\nENTRY %main (x: f32[64]) -> f32[64] {\n"
        "  %x = f32[64]{0} parameter(0)\n"
        "  %one = f32[64]{0} all-reduce(%x), replica_groups=" +
        groups +
        ", to_apply=%sum\n"
        "  ROOT %all = f32[64]{0} all-reduce(%one), replica_groups={}, to_apply=%sum\n}\n");
  };
  const Trace three = module("{{0},{1},{2}}"), unknown = module("{}");
  REQUIRE(three.graph.collectives().size() == 1);
  CHECK(three.graph.collectives()[CollectiveId{0}].ranks == 3);
  CHECK_FALSE(has_note(three, "among all devices"));
  CHECK(unknown.graph.collectives().size() == 0);
  CHECK(
      has_note(unknown, "warning: 2 collectives are among all devices, and the module states no"));
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

// A loop over 24 layers reads a layer's weights of 4 kB, and writes 4 kB to a list of 24.
TEST_CASE("HLO: slices and in-place updates only move the accessed part") {
  const OpGraph g = hlo_graph(R"(HloModule m
%take (p: f32[24,1024], i: s32[]) -> f32[1,1024] {
  %p = f32[24,1024]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %slice = f32[1,1024]{1,0} dynamic-slice(%p, %i, %i), dynamic_slice_sizes={1,1024}
  ROOT %negated = f32[1,1024]{1,0} negate(%slice)
}
%put (p: f32[24,1024], u: f32[1,1024], i: s32[]) -> f32[24,1024] {
  %p = f32[24,1024]{1,0} parameter(0)
  %u = f32[1,1024]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %updated = f32[24,1024]{1,0} dynamic-update-slice(%p, %u, %i, %i)
  ROOT %same = f32[24,1024]{1,0} bitcast(%updated)
}
%both (p: f32[24,1024], i: s32[]) -> f32[24,1024] {
  %i = s32[] parameter(1)
  %p = f32[24,1024]{1,0} parameter(0)
  %slice = f32[1,1024]{1,0} dynamic-slice(%p, %i, %i), dynamic_slice_sizes={1,1024}
  %wide = f32[24,1024]{1,0} broadcast(%slice), dimensions={0,1}
  ROOT %sum = f32[24,1024]{1,0} add(%p, %wide)
}
ENTRY %main (w: f32[24,1024], u: f32[1,1024], i: s32[]) -> f32[] {
  %w = f32[24,1024]{1,0} parameter(0)
  %u = f32[1,1024]{1,0} parameter(1)
  %i = s32[] parameter(2)
  %taken = f32[1,1024]{1,0} fusion(%w, %i), kind=kLoop, calls=%take
  %listed = f32[24,1024]{1,0} fusion(%w, %u, %i), kind=kLoop, calls=%put
  ROOT %whole = f32[24,1024]{1,0} fusion(%w, %i), kind=kLoop, calls=%both
}
)");
  const auto moved = [&](const char* op) { return g.work(*g.find(op)).traffic; };
  CHECK(moved("taken") == Bytes{4096 + 4 + 4096});
  CHECK(moved("listed") == Bytes{4096 + 4 + 4096});
  CHECK(moved("whole") == Bytes{2 * 24 * 4096 + 4});
}

TEST_CASE("HLO: collectives have the stated ranks; a start and its done are one op") {
  const Trace trace = parsed(R"(HloModule m, replica_count=2, num_partitions=4
%exchange (x: f32[64,8]) -> f32[64,8] {
  %x = f32[64,8]{1,0} parameter(0)
  ROOT %all = f32[64,8]{1,0} all-to-all(%x), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
}
ENTRY %main (x: f32[64,8]) -> f32[] {
  %x = f32[64,8]{1,0} parameter(0)
  %all = f32[64,8]{1,0} all-reduce(%x), replica_groups={}, to_apply=%sum
  %gather = (f32[64,8]{1,0}, f32[256,8]{1,0}) all-gather-start(%all), replica_groups=[2,4]<=[8], dimensions={0}
  %gathered = f32[256,8]{1,0} all-gather-done(%gather)
  %scatter = ((f32[64,8]{1,0}), f32[16,8]{1,0}) reduce-scatter-start(%all), replica_groups=[2,4]<=[8], dimensions={0}, to_apply=%sum
  %ring = (f32[64,8]{1,0}, f32[64,8]{1,0}, u32[], u32[]) collective-permute-start(%all), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %bare = f32[64,8]{1,0} collective-permute-start(%all), source_target_pairs={{0,1}}
  %stay = f32[64,8]{1,0} collective-permute(%all), source_target_pairs={{0,0},{1,1}}
  %copy = (f32[64,8]{1,0}, f32[64,8]{1,0}, u32[]) copy-start(%all)
  %copied = f32[64,8]{1,0} copy-done(%copy)
  %a2a = ((f32[64,8]{1,0}), f32[64,8]{1,0}) async-start(%all), calls=%exchange
  %exchanged = f32[64,8]{1,0} async-done(%a2a)
  %called = f32[64,8]{1,0} call(%all), to_apply=%exchange
  ROOT %last = f32[256,8]{1,0} negate(%gathered)
}
)");
  const OpGraph& g = trace.graph;
  std::map<std::string, Collective> found;
  for (const CollectiveId c : g.collectives().ids())
    found.emplace(std::string(g.name(g.collectives()[c].first)), g.collectives()[c]);
  const std::int64_t bytes = 64 * 8 * 4;
  REQUIRE(found.size() == 6);
  CHECK(found.at("all").ranks == 8);
  CHECK(found.at("gather").ranks == 4);
  CHECK(found.at("gather").bytes == Bytes{4 * bytes});
  CHECK(found.at("scatter").bytes == Bytes{bytes});
  CHECK(found.at("ring").kind == CollectiveKind::send_recv);
  CHECK(found.at("ring").bytes == Bytes{bytes});
  CHECK(found.at("a2a").kind == CollectiveKind::all_to_all);
  CHECK(found.at("a2a").bytes == Bytes{bytes});
  CHECK_FALSE(g.find("gathered"));
  REQUIRE(g.outputs(*g.find("gather")).size() == 1);  // the operand takes no extra memory
  CHECK(g.outputs(*g.find("copy")).size() == 1);
  CHECK(g.outputs(*g.find("bare")).size() == 1);  // without its operand in a tuple
  CHECK(g.work(*g.find("copy")).traffic == Bytes{2 * bytes});
  CHECK(g.in_edges(*g.find("last")).size() == 1);
  CHECK(has_note(trace, "warning: 1 collectives within loops, calls or branches count only"));
}

TEST_CASE("StableHLO: attributes in either form, on one line or several; complex numbers") {
  const Trace trace = parsed(R"(module @m attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%arg0: tensor<8x16x32xbf16>, %arg1: tensor<8x32x16xbf16>, %arg2: tensor<4xcomplex<f32>>) -> tensor<8x32x32xf32> {
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2]>}> : (tensor<8x16x32xbf16>, tensor<8x32x16xbf16>) -> tensor<8x32x32xf32>
    %1 = "stablehlo.dot_general"(%arg0, %arg1) {
      dot_dimension_numbers = #stablehlo.dot<
        lhs_batching_dimensions = [0],
        lhs_contracting_dimensions = [1]
      >
    } : (tensor<8x16x32xbf16>, tensor<8x32x16xbf16>) -> tensor<8x32x32xf32>
    %2 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<"0x00"> : tensor<2x128xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<8x32x32xf32>) -> tensor<8x32x32xf32>
    %4 = stablehlo.custom_call @Sharding(%arg2) {mhlo.sharding = "{replicated}"} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    %3 = stablehlo.real %4 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    return %2 : tensor<8x32x32xf32>
  }
}
)");
  const OpGraph& g = trace.graph;
  for (const char* product : {"0", "1"}) {
    CHECK(g.work(*g.find(product)).flops == 2 * 8 * 32 * 32 * 16);
    CHECK(g.work(*g.find(product)).precision == Precision::bf16);
  }
  REQUIRE(g.collectives().size() == 1);
  CHECK(g.collectives()[CollectiveId{0}].ranks == 128);
  CHECK(g.op(*g.find("arg2")).persistent == Bytes{4 * 8});
  CHECK(g.work(*g.find("3")).traffic == Bytes{4 * 8 + 4 * 4});
  CHECK_FALSE(g.find("4"));  // an annotation moves nothing: its readers read its operand
  CHECK(g.in_edges(*g.find("3")).size() == 1);
}
