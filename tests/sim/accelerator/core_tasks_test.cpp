#include <doctest/doctest.h>

#include "sim/accelerator/layer_schedule.h"
#include "sim/error.h"
#include "tests/message.h"
#include "traces/generator.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

OpGraph generated(const std::string& name,
                  const std::vector<std::pair<std::string, std::string>>& options) {
  Options o(name);
  for (const auto& [key, value] : options) o.set(key, {value, {}, {}});
  return generate_trace(name, o).graph;
}

OpId op(const OpGraph& graph, std::string_view name) {
  const auto v = graph.find(name);
  REQUIRE_MESSAGE(v, name);
  return *v;
}

std::vector<CoreOp> ops_of(const OpGraph& graph, std::string_view name) {
  const OpId v = op(graph, name);
  std::vector<CoreOp> ops;
  for (const CoreTask& task : core_tasks(graph, std::span(&v, 1))) ops.push_back(task.op);
  return ops;
}

CoreOp product(std::int64_t count, std::int64_t m, std::int64_t k, std::int64_t n) {
  return {.count = count, .m = m, .k = k, .n = n};
}

/// Flops of the GEMMs of all ops, forward and backward.
std::int64_t flops_of_products(const OpGraph& graph) {
  std::int64_t flops = 0;
  for (const OpId v : graph.ops())
    for (const CoreTask& task : core_tasks(graph, std::span(&v, 1)))
      flops += 2 * task.op.count * task.op.m * task.op.k * task.op.n;
  return flops;
}

}  // namespace

TEST_SUITE("core tasks") {
  // 2 samples of 16 tokens, 64 features, 4 heads: 32 rows.
  const std::vector<std::pair<std::string, std::string>> small{{"num_hidden_layers", "2"},
                                                               {"hidden_size", "64"},
                                                               {"num_attention_heads", "4"},
                                                               {"length", "16"},
                                                               {"vocab_size", "96"},
                                                               {"batch", "2"},
                                                               {"kernels", "fuse_modules=false"}};

  TEST_CASE("shapes of GPT's GEMMs follow from flops and tensors") {
    const OpGraph graph = generated("gpt", small);
    CHECK(ops_of(graph, "h_0/attn/c_attn/q") == std::vector{product(1, 32, 64, 64)});
    CHECK(ops_of(graph, "h_1/mlp/c_fc") == std::vector{product(1, 32, 64, 256)});
    CHECK(ops_of(graph, "h_1/mlp/c_proj") == std::vector{product(1, 32, 256, 64)});
    CHECK(ops_of(graph, "lm_head") == std::vector{product(1, 32, 64, 96)});
    // dx = dy w^T and dw = x^T dy.
    CHECK(ops_of(graph, "h_1/mlp/c_fc_grad") ==
          std::vector{product(1, 32, 256, 64), product(1, 64, 32, 256)});
    // 2 samples x 4 heads: scores of [16, 16] by [16, 16] by [16, 16].
    const std::vector<CoreOp> core = ops_of(graph, "h_0/attn/core");
    REQUIRE(core.size() == 3);
    CHECK(core[0] == product(8, 16, 16, 16));
    CHECK(core[1].elements == 8 * 16 * 16);
    CHECK(core[1].passes == 5);
    CHECK(core[2] == product(8, 16, 16, 16));
    CHECK(ops_of(graph, "h_0/attn/core_grad").size() == 5);
  }

  TEST_CASE(
      "a fused attention's shape follows from its saved statistic, and it recomputes scores") {
    auto options = small;
    options.insert(options.end(), {{"num_key_value_heads", "4"}, {"intermediate_size", "128"}});
    const OpGraph graph = generated("llama", options);
    std::vector<OpId> all(graph.ops().begin(), graph.ops().end());
    std::size_t attentions = 0;
    for (const OpId v : all) {
      if (graph.kind(v) != "FusedAttention") continue;
      ++attentions;
      CHECK(ops_of(graph, graph.name(v))[0] == product(8, 16, 16, 16));
      CHECK(ops_of(graph, std::string(graph.name(v)) + "_grad").size() == 6);
    }
    CHECK(attentions == 2);
  }

  TEST_CASE("one of two ranks has half of the heads and of the inner features") {
    auto options = small;
    options.emplace_back("tensor", "2");
    const OpGraph graph = generated("gpt", options);
    CHECK(ops_of(graph, "h_0/attn/core")[0] == product(4, 16, 16, 16));
    CHECK(ops_of(graph, "h_1/mlp/c_fc") == std::vector{product(1, 32, 64, 128)});
  }

  TEST_CASE("GEMMs have the flops of the model's formula") {
    // A layer: 4 GEMMs of 64 x 64, 2 of 64 x 256; scores and values 2 x 16 x 64 per row. Twice
    // as many backward. The logits: 64 x 96.
    const std::int64_t layer = 4 * 64 * 64 + 2 * 64 * 256 + 2 * 16 * 64;
    CHECK(flops_of_products(generated("gpt", small)) == 3 * 2 * 32 * (2 * layer + 64 * 96));
  }

  TEST_CASE("dependencies pass through collectives; no task waits for weight gradients") {
    auto options = small;
    options.emplace_back("tensor", "2");
    const OpGraph graph = generated("gpt", options);
    const std::vector<OpId> ops{op(graph, "h_0/attn/c_proj"), op(graph, "h_0/attn/sum"),
                                op(graph, "h_0/attn_out/dropout")};
    const std::vector<CoreTask> tasks = core_tasks(graph, ops);
    REQUIRE(tasks.size() == 2);
    CHECK(tasks[1].after == std::vector<std::uint32_t>{0});
    const std::vector<OpId> back{op(graph, "h_0/mlp/c_proj_grad"), op(graph, "h_0/mlp/gelu_grad")};
    const std::vector<CoreTask> backward = core_tasks(graph, back);
    REQUIRE(backward.size() == 3);
    CHECK(backward[2].after == std::vector<std::uint32_t>{0});  // not 1, the gradient of w
  }

  TEST_CASE("unknown kinds of ops are rejected by name") {
    const OpGraph graph = generated("alexnet", {{"kernels", "fuse_modules=false"}});
    const std::string told = message<InputError>([&] {
      for (const OpId v : graph.ops()) core_tasks(graph, std::span(&v, 1));
    });
    CHECK(told.find("of kind Conv2d: its GEMM shape is unknown") != std::string::npos);
  }
}
