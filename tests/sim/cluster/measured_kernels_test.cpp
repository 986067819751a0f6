#include <set>

#include "scenarios/read/device_table.h"
#include "tests/prelude.h"

namespace {

/// A k-step of 64 of a tile of 128 x 128 takes 1 us; memory takes no time.
DeviceRates rates_of_processors(double processors) {
  return {.flops = 2.0 * 128 * 128 * 64 * processors, .bytes = 1e12, .processors = processors};
}

/// Tiles take 0.5 us in addition to their k-steps, a split GEMM 0.1 us.
ProductNumbers plain_numbers() {
  return {.efficiency = 1.0, .overlap = 1.0, .launch = 2.0, .tile = 0.5, .split = 0.1};
}

MatrixShape product_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.kind = MatrixKind::product, .count = 1, .rows = m, .columns = n, .inner = k};
}

DeviceModel quick_to_launch() {
  return {.name = "m", .bandwidth = {1e15}, .launch = Duration{7}, .source = {}, .fitted = {}};
}

}  // namespace

TEST_SUITE_BEGIN("measured_kernels");
TEST_CASE("a GEMM uses the fastest tile size") {
  // 128 x 128 x 128 on 4 processors: one tile takes 2 x 1 + 0.5 us. Four tiles of 64 x 64 run
  // side by side: 2 x 0.25 + 0.5 = 1 us, and eight of 64 x 32 in two waves 2 x (2 x 0.125 + 0.5).
  CHECK(product_us(plain_numbers(), rates_of_processors(4), product_of(128, 128, 128), 0.0) ==
        doctest::Approx(2.0 + 1.0));
  // 5 tiles of 64 x 64 or more smaller ones: the fifth is a wave of its own.
  ProductNumbers large_tiles = plain_numbers();
  large_tiles.tile = 100.0;  // so the fewest tiles win: two of 256 x 256 on one processor
  CHECK(product_us(large_tiles, rates_of_processors(1), product_of(512, 256, 64), 0.0) ==
        doctest::Approx(2.0 + 2 * (4.0 + 100.0)));
}

TEST_CASE("a partial last wave costs a full one, or its fraction") {
  // 768 x 256 x 64 on 2 processors with dear tiles: 3 tiles of 256 x 256, each 4 + 100 us.
  ProductNumbers numbers = plain_numbers();
  numbers.tile = 100.0;
  const auto us = [&] {
    return product_us(numbers, rates_of_processors(2), product_of(768, 256, 64), 0.0);
  };
  CHECK(us() == doctest::Approx(2.0 + 2 * 104.0));
  numbers.streaming = 1.0;
  CHECK(us() == doctest::Approx(2.0 + 1.5 * 104.0));
}

TEST_CASE("a small GEMM with large k is split (split-k)") {
  // 64 x 32 x 256 on 8 processors: one tile of 64 x 32 has 4 steps of 0.125 us, and 0.5 us: 1 us.
  // Two halves have 2 steps each, and 0.1 us to add them: 0.25 + 0.5 + 0.1.
  CHECK(product_us(plain_numbers(), rates_of_processors(8), product_of(64, 32, 256), 0.0) ==
        doctest::Approx(2.0 + 0.85));
  // Splits have at least 128 of k.
  CHECK(product_us(plain_numbers(), rates_of_processors(8), product_of(64, 32, 128), 0.0) ==
        doctest::Approx(2.0 + 0.75));
}

TEST_CASE("traffic, cache hits and quantisation add their time") {
  ProductNumbers numbers = plain_numbers();
  numbers.bandwidth = 0.5;
  const DeviceRates rates{.flops = 2.0 * 128 * 128 * 64, .bytes = 1000.0, .processors = 1.0};
  const MatrixShape shape = product_of(128, 128, 64);  // 1.5 us of tiles
  // overlap 1: one after the other. 5000 bytes at 500 per us.
  CHECK(product_us(numbers, rates, shape, 5000.0) == doctest::Approx(2.0 + 1.5 + 10.0));
  numbers.cache = 4000.0;
  numbers.cached = 4.0;  // 4000 bytes as if they were 1000
  CHECK(product_us(numbers, rates, shape, 5000.0) == doctest::Approx(2.0 + 1.5 + 4.0));
  numbers.quantise = 2.0;  // bytes for each of 128 x 64 numbers, at the whole bandwidth
  CHECK(product_us(numbers, rates, shape, 0.0) == doctest::Approx(2.0 + 1.5 + 16.384));
}

TEST_CASE("a GEMM that a benchmark repeats for long enough runs at the power limit") {
  ProductNumbers numbers = plain_numbers();
  numbers.sustained = 0.5;
  numbers.settled = 3.0;
  const auto us = [](const ProductNumbers& x) {
    return product_us(x, rates_of_processors(1), product_of(128, 128, 64), 0.0);
  };
  // 1.5 us of tiles are half of 3 us: half of the way from once to twice as long.
  CHECK(us(numbers) == doctest::Approx(2.0 + 1.5 * 1.5));
  // In a step all GEMMs are at the limit, and so is one that takes longer than `settled`.
  CHECK(us(numbers.under_load()) == doctest::Approx(2.0 + 2 * 1.5));
  numbers.settled = 1.0;
  CHECK(us(numbers) == doctest::Approx(2.0 + 2 * 1.5));
}

TEST_CASE("fused attention spreads its blocks, and takes at least the longest one") {
  // One head of 64, 128 queries and keys: 4 x 64 x 128 x 128 flops in 1 us, exponentials in 0.5.
  const AttentionNumbers numbers{.efficiency = 1.0,
                                 .exponential = 0.5,
                                 .tile = 0.25,
                                 .launch = 1.0,
                                 .uneven = 1.0,
                                 .traffic = 2.0};
  DeviceRates rates{.flops = 4.0 * 64 * 128 * 128, .bytes = 1000.0, .processors = 1.0};
  MatrixShape shape{
      .kind = MatrixKind::attention, .count = 2, .rows = 128, .columns = 64, .inner = 128};
  CHECK(attention_us(numbers, rates, shape, 0.0) == doctest::Approx(1.0 + 1.75 + 1.75));
  CHECK(attention_us(numbers, rates, shape, 500.0) == doctest::Approx(1.0 + 3.5 + 1.0));
  // Causal, 256 queries: 3 of 4 blocks of scores; the second block of queries reads two.
  shape = {
      .kind = MatrixKind::causal_attention, .count = 2, .rows = 256, .columns = 64, .inner = 256};
  CHECK(attention_us(numbers, rates, shape, 0.0) ==
        doctest::Approx(1.0 + (3 * 1.5 + 2 * 0.25) + (2 * 1.5 + 0.25)));
}

TEST_CASE("the missing extent of a shape follows from the flops") {
  const MatrixShape rows = MatrixShape{MatrixKind::product, 1, 0, 16, 8}.filled(2 * 10 * 16 * 8);
  CHECK(rows.rows == 10);
  CHECK(MatrixShape{MatrixKind::product, 1, 4, 4, 0}.filled(1).inner == 1);  // at least 1
}

TEST_CASE("kernels take measured times if the device has numbers, else roofline times") {
  DeviceModel model = quick_to_launch();
  model.processors = 1;
  for (const Precision p : {Precision::fp32, Precision::bf16})
    model.at(p) = {.peak = {2.0 * 128 * 128 * 64 * 1e6}, .efficiency = {.other = 0.5}};
  model.at(Precision::bf16).products = plain_numbers();
  OpWork kernel{.flops = 2 * 128 * 128 * 64,
                .precision = Precision::bf16,
                .matrix = {MatrixKind::product, 1, 0, 128, 64}};
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{3500});  // 2 + 1 + 0.5 us
  // 128 x 64 numbers of the left matrix, 125,000 bytes each at 1e15 B/s: 1,024 ns more, unless
  // others have converted them.
  model.at(Precision::bf16).products.quantise = 125'000.0;
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{4524});
  kernel.matrix.kind = MatrixKind::prepared_product;
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{3500});
  // Launches of conversion kernels are included, too: a 16-bit GEMM has 2 us.
  kernel.precision = Precision::fp8;
  model.at(Precision::fp8) = model.at(Precision::bf16);
  model.at(Precision::fp8).products.launch = 12.0;
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{3500});
  kernel.matrix.kind = MatrixKind::product;
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{14524});
  kernel.precision = Precision::fp32;
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{2007});  // half of the peak; the launch
  kernel.precision = Precision::bf16;
  // An efficiency given for the kind of op, a quarter of the peak, replaces the numbers of its
  // GEMMs.
  model.at(Precision::bf16).efficiency.by_kind = {{"Conv2d", 0.25}};
  CHECK(kernel_time(kernel, model, "Conv2dBackward") == Duration{4007});
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{4524});
  kernel.matrix = {};
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{2007});
}

// As above 3.5 us, 2 of which are the launch. In 8 bits the measured launch of 9 us includes that
// of the kernel that converts the left matrix, which a GEMM with converted operands lacks.
TEST_CASE("a GEMM with converted operands has the launch time of a 16-bit GEMM") {
  DeviceModel model = quick_to_launch();
  model.processors = 1;
  for (const Precision p : {Precision::fp8, Precision::bf16}) {
    model.at(p) = {.peak = {2.0 * 128 * 128 * 64 * 1e6}, .efficiency = {.other = 0.5}};
    model.at(p).products = plain_numbers();
  }
  model.at(Precision::fp8).products.launch = 9.0;
  OpWork kernel{.flops = 2 * 128 * 128 * 64,
                .precision = Precision::fp8,
                .matrix = {MatrixKind::product, 1, 0, 128, 64}};
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{10'500});
  kernel.matrix.kind = MatrixKind::prepared_product;
  CHECK(kernel_time(kernel, model, "MatMul") == Duration{3500});
}

// One head, 128 queries, 128 keys of 64 features: 4 x 64 x 128 x 128 flops at half of the peak of
// the format, 2^23 a us in 16 bits (1 us) and twice that in 8, and 3 us for the exponentials.
TEST_CASE("FP8 attention has the FP8 peak, with unchanged softmax time") {
  DeviceModel model = quick_to_launch();
  model.processors = 1;
  constexpr double peak = 1 << 23;
  model.at(Precision::bf16).peak = {peak * 1e6};
  model.at(Precision::fp8).peak = {2.0 * peak * 1e6};
  model.attention[64] = {.efficiency = 0.5, .exponential = 3.0, .uneven = 1.0};
  OpWork kernel{.flops = 4 * 64 * 128 * 128,
                .precision = Precision::bf16,
                .matrix = {MatrixKind::attention, 0, 128, 64, 128}};
  // Uneven 1: all blocks, and the longest, one after the other.
  CHECK(kernel_time(kernel, model, "Attention") == Duration{2 * 4000});
  kernel.precision = Precision::fp8;
  CHECK(kernel_time(kernel, model, "Attention") == Duration{2 * 3500});
}

TEST_CASE("a 16-bit GEMM is slower if its rows are no multiple of 16 bytes") {
  DeviceModel model = quick_to_launch();
  model.unaligned = 0.25;
  for (const Precision p : {Precision::fp32, Precision::fp16})
    model.at(p) = {.peak = {2.0 * 128 * 128 * 64 * 1e6}, .efficiency = {.other = 0.5}};
  // 2 us at half of the peak; 4 columns of 2 bytes are 8 bytes, and reach the root of the share.
  const auto time = [&](Precision p, std::int64_t columns) {
    return kernel_time({.flops = 2 * 128 * 128 * 64,
                        .precision = p,
                        .matrix = {MatrixKind::product, 1, 0, columns, 64}},
                       model, "MatMul");
  };
  CHECK(time(Precision::fp16, 8) == Duration{2007});
  CHECK(time(Precision::fp16, 4) == Duration{4007});
  CHECK(time(Precision::fp16, 3) == Duration{8007});
  CHECK(time(Precision::fp32, 4) == Duration{2007});
  // Tiles, too: 2 us of launch, and 1 us of 8 x 128 x 64 tiles, which takes four times as long.
  model.processors = 1;
  model.at(Precision::fp16).products = {.efficiency = 1.0, .overlap = 1.0, .launch = 2.0};
  CHECK(time(Precision::fp16, 128) == Duration{3000});
  CHECK(time(Precision::fp16, 127) > Duration{2000 + 3900});
}

// An op of each kind has the same four kernels: a GEMM with numbers, the same with twice the
// rows, the first in a dtype without numbers, and one that is no GEMM.
TEST_CASE("kernels of a graph take the same times as alone") {
  DeviceModel model = quick_to_launch();
  model.processors = 1;
  for (const Precision p : {Precision::fp32, Precision::bf16})
    model.at(p) = {.peak = {2.0 * 128 * 128 * 64 * 1e6},
                   .efficiency = {.other = 0.5, .by_kind = {{"Conv", 0.25}}}};
  model.at(Precision::bf16).products = plain_numbers();
  const OpWork product{.flops = 2 * 128 * 128 * 64,
                       .precision = Precision::bf16,
                       .matrix = {MatrixKind::product, 1, 0, 128, 64}};
  OpWork longer = product, without_numbers = product, plain = product;
  longer.flops *= 2;
  without_numbers.precision = Precision::fp32;
  plain.matrix = {};
  OpGraphBuilder b;
  for (const char* kind : {"MatMul", "Conv"}) {
    const OpId v = b.add_op({.name = kind, .kind = kind});
    for (const OpWork& work : {product, longer, product, without_numbers, plain})
      b.add_kernel(v, work);
  }
  const OpGraph graph = std::move(b).build();
  const auto times = roofline_times(graph, model);
  for (const OpId v : graph.ops()) {
    Duration alone{};
    for (const OpWork& work : graph.kernels(v)) alone += kernel_time(work, model, graph.kind(v));
    CHECK(times[v] == alone);
  }
  // Kernels of Conv reach a quarter of the peak: 4, 8, 4, 4 and 4 us, and five launches of 7 ns.
  // MatMul has GEMMs of 3.5, 4.5 and 3.5 us, and two kernels of 2 us with such a launch.
  CHECK(times[OpId{1}] - times[OpId{0}] == Duration{24'035 - 15'514});
  // In a step the three GEMMs of MatMul are at the power limit: their 1.5, 2.5 and 1.5 us
  // of tiles take twice as long.
  ProductNumbers& limited = model.at(Precision::bf16).products;
  limited.sustained = 0.5;
  limited.settled = 1e6;
  const auto loaded = roofline_times(graph, model);
  CHECK(loaded[OpId{0}] - times[OpId{0}] == Duration{5500});
}

// 1000 bytes at 1 byte per ns.
TEST_CASE("memory-bound kernels reach the bandwidth efficiency of their kind") {
  DeviceModel model{.name = "m", .bandwidth = {1e9}, .source = {}, .fitted = {}};
  model.bandwidth_efficiency = 0.8;
  model.passes = {{"Norm", {.bandwidth_efficiency = 0.5}}};
  const OpWork pass{.traffic = 1000_B};
  CHECK(kernel_time(pass, model, "Add") == Duration{1250});
  CHECK(kernel_time(pass, model, "NormBackward") == Duration{2000});
}

TEST_CASE("no kind reaches more than its peak or bandwidth, and fp32 never takes tensor peaks") {
  for (const auto& [name, model] : built_in_devices().devices) {
    CAPTURE(name);
    if (model->processors == 0) continue;
    for (const Precision p : all<Precision>()) {
      const ProductNumbers& x = model->at(p).products;
      CHECK((x.efficiency > 0.0 && x.efficiency <= 1.0 && x.bandwidth <= 1.0));
    }
    for (const auto& [head, x] : model->attention) CHECK(x.efficiency <= 1.0);
    CHECK(model->bandwidth_efficiency <= 1.0);
    // GeForce's tensor cores, and some others', accumulate in fp32 at half of their rate; Radeon
    // packs two numbers.
    const bool doubles =
        name.starts_with("rtx_30") || name.starts_with("rtx_40") || name.starts_with("rtx_50") ||
        name.starts_with("rx_") ||
        std::set<std::string>{"a10g", "gb10", "h20", "l40", "ryzen_ai_max_395"}.contains(name);
    const double least = doubles ? 1.9 : 3.9;
    for (const auto& [kind, numbers] : model->passes) CHECK(numbers.bandwidth_efficiency <= 1.0);
    CHECK(model->at(Precision::fp32).peak.flop_per_second <
          model->at(Precision::fp16).peak.flop_per_second / least);
    CHECK_FALSE(model->fitted.empty());
  }
}
