// Formulas for the work of calls in PyTorch's execution traces.

#include <doctest/doctest.h>

#include "traces/import/pytorch/execution_trace.h"

using namespace baechi;
using namespace baechi::pytorch;

namespace {

TensorView tensor(std::int64_t storage, std::vector<std::int64_t> shape) {
  TensorView t{.storage = storage, .elements = 1, .element_bytes = 4, .shape = std::move(shape)};
  for (const std::int64_t side : t.shape) t.elements *= side;
  return t;
}
OpWork work_by_formula(const std::string& name, const std::vector<TensorView>& in,
                       const std::vector<TensorView>& out) {
  Call call;
  call.name = name;
  for (const auto* all : {&in, &out})
    for (const TensorView& t : *all)
      (all == &in ? call.inputs : call.outputs).push_back({.name = "", .tensors = {t}});
  return work_of(call, Precision::tf32);
}

}  // namespace

TEST_SUITE("pytorch formulas") {
  TEST_CASE("work by formula: transposed convolutions, attention, recurrent layers, precision") {
    // 6 channels of 5 x 5 to 4 of 10 x 10, 3 x 3, stride 2: each input element is multiplied with 4
    // x 3 x 3 weights.
    const auto x = tensor(1, {8, 6, 5, 5}), w = tensor(2, {6, 4, 3, 3}),
               y = tensor(3, {8, 4, 10, 10});
    CHECK(work_by_formula("convolution", {x, w}, {y}).flops == 2 * 8 * 6 * 5 * 5 * 4 * 3 * 3);
    CHECK(work_by_formula("convolution_backward", {y, x, w}, {x, w}).flops ==
          2 * 2 * 8 * 6 * 5 * 5 * 4 * 3 * 3);
    CHECK(work_by_formula("convolution", {x, w}, {y}).precision == Precision::tf32);
    CHECK(work_by_formula("mm", {tensor(1, {8, 6}), tensor(2, {6, 4})}, {tensor(3, {8, 4})})
              .precision == Precision::fp32);
    // The reverse is a convolution of stride 2.
    CHECK(work_by_formula("convolution", {y, w}, {x}).flops == 2 * 8 * 6 * 5 * 5 * 4 * 3 * 3);
    // 2 x 8 heads of 5 queries, 7 keys, width 16: two matmuls, and five.
    const auto q = tensor(4, {2, 8, 5, 16}), k = tensor(5, {2, 8, 7, 16});
    const char* fused = "_scaled_dot_product_flash_attention";
    CHECK(work_by_formula(fused, {q, k, k}, {q}).flops == 2 * 2 * (2 * 8 * 5 * 7 * 16));
    CHECK(work_by_formula("_scaled_dot_product_flash_attention_backward", {q, q, k, k}, {q, k, k})
              .flops == 5 * 2 * (2 * 8 * 5 * 7 * 16));
    // The same with length before heads.
    const auto q2 = tensor(6, {2, 5, 8, 16}), k2 = tensor(7, {2, 7, 8, 16});
    CHECK(work_by_formula("_flash_attention_forward", {q2, k2, k2}, {q2}).flops ==
          2 * 2 * (2 * 8 * 5 * 7 * 16));
    // A GRU of 5: matrices of 15 x 6 and 15 x 5, for 4 steps of 2.
    const auto steps = tensor(8, {4, 2, 6}), in = tensor(9, {15, 6}), back = tensor(10, {15, 5});
    CHECK(work_by_formula("gru", {steps, in, back}, {steps}).flops ==
          2 * 4 * 2 * (15 * 6 + 15 * 5));
    const auto gates = tensor(11, {2, 20});
    CHECK(work_by_formula("_thnn_fused_lstm_cell", {gates, gates}, {gates}).flops == 40);
    const Value five{.number = 2, .is_number = true, .text = {}, .items = {}};
    const Value view{.text = {}, .is_list = true, .items = {five, five, five, five, five}};
    for (const auto& [type, precision] : {std::pair{"Tensor(c10::Half)", Precision::fp16},
                                          {"Tensor(c10::BFloat16)", Precision::bf16},
                                          {"Tensor(c10::Float8_e4m3fn)", Precision::fp8},
                                          {"Tensor(float)", Precision::fp32}}) {
      std::vector<Argument> found;
      fill({.values = {view}, .shapes = {}, .types = {type}}, found);
      REQUIRE(found.size() == 1);
      REQUIRE(found[0].tensors.size() == 1);
      CHECK(found[0].tensors[0].precision == precision);
    }
  }
}
