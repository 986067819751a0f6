#include "sim/accelerator/accelerator.h"
#include "tests/prelude.h"
#include "traces/generator.h"

namespace {

/// A cycle is a nanosecond, a byte of traffic a hundredth of one, a number two bytes.
constexpr AcceleratorRates rates{.clock = 1e9, .memory = {100e9}, .word = Bytes{2}};

constexpr Accelerator two_and_two{
    .tensor_cores = 2, .vector_cores = 2, .width = 4, .depth = 8, .buffer = 1_MiB};

}  // namespace

TEST_SUITE_BEGIN("core costs");
TEST_CASE("area: tensor cores, vector cores and the buffer") {
  const AreaTable table{
      .tensor_core = {{32, 100.0}}, .vector_core = {{4, 7.0}}, .buffer = {{1_MiB, 1000.0}}};
  CHECK(table.area(two_and_two) == 2 * 100.0 + 2 * 7.0 + 1000.0);
  Accelerator other = two_and_two;
  other.depth = 4;  // 16 multipliers: not in the table
  CHECK_FALSE(table.area(other));
}

TEST_CASE("a GEMM: rounds of tiles, each of m rows and the array's fill") {
  // k 10 / width 4: 3 tiles; n 20 / depth 8: 3 tiles. 9 tiles on 2 cores: 5 rounds of
  // 100 + 4 + 8 cycles = 560.
  const CoreOp op{.count = 1, .m = 100, .k = 10, .n = 20};
  CoreCost cost = core_cost(op, two_and_two, rates);
  CHECK(cost.cycles == 560);
  CHECK(cost.cores == 2);
  CHECK(cost.traffic == Bytes{2 * (1000 + 200 + 2000)});  // x, w, y once: they fit
  CHECK(cost.time == 560ns);
  // 8 GEMMs have 72 tiles: 36 rounds.
  CHECK(core_cost({.count = 8, .m = 100, .k = 10, .n = 20}, two_and_two, rates).cycles == 36 * 112);
  // 9 tiles on 8 cores take 2 rounds, as on 5.
  Accelerator more = two_and_two;
  more.tensor_cores = 8;
  cost = core_cost(op, more, rates);
  CHECK(cost.cycles == 2 * 112);
  CHECK(cost.cores == 5);
}

TEST_CASE("operands beyond the buffer are read and written by every tile") {
  Accelerator small = two_and_two;
  small.buffer = Bytes{6000};  // 6400 are needed
  const CoreCost cost = core_cost({.count = 1, .m = 100, .k = 10, .n = 20}, small, rates);
  CHECK(cost.traffic == Bytes{2 * (1000 * 3 + 200 + 2000 * 3)});  // 18 400
  CHECK(cost.time == 560ns);
  // At a tenth of the bandwidth the traffic decides: 18 400 B at 10 B/ns.
  AcceleratorRates slow = rates;
  slow.memory = {10e9};
  CHECK(core_cost({.count = 1, .m = 100, .k = 10, .n = 20}, small, slow).time == 1840ns);
}

TEST_CASE("a vector op: all lanes of its cores, one cycle per pass") {
  // 100 numbers on 2 x 4 lanes: 13 cycles a pass.
  const CoreCost cost = core_cost({.passes = 3, .elements = 100, .words = 200}, two_and_two, rates);
  CHECK(cost.cycles == 39);
  CHECK(cost.cores == 2);
  CHECK(cost.traffic == Bytes{400});
  // 3 numbers need one core.
  CHECK(core_cost({.passes = 1, .elements = 3}, two_and_two, rates).cores == 1);
}

TEST_SUITE_BEGIN("layer schedules");
TEST_CASE("independent tasks run concurrently in a pool if it has cores for both") {
  const PoolTask one{.tensor = true, .cores = 1, .time = 10ns};
  const std::vector<PoolTask> both{one, one};
  CHECK(list_schedule(both, two_and_two, rates).makespan == 10ns);
  PoolTask wide = one;
  wide.cores = 2;
  CHECK(list_schedule(std::vector{wide, wide}, two_and_two, rates).makespan == 20ns);
  // The vector cores are another pool.
  PoolTask vector = wide;
  vector.tensor = false;
  CHECK(list_schedule(std::vector{wide, vector}, two_and_two, rates).makespan == 10ns);
}

TEST_CASE("the longest path goes first, with backfilling past a task that waits for cores") {
  //  a(10, tensor) -> b(30, vector);  c(20, tensor), d(5, tensor, one core)
  const std::vector<std::uint32_t> after_a{0};
  const std::vector<PoolTask> tasks{{.tensor = true, .cores = 2, .time = 10ns},
                                    {.tensor = false, .cores = 2, .time = 30ns, .after = after_a},
                                    {.tensor = true, .cores = 2, .time = 20ns},
                                    {.tensor = true, .cores = 1, .time = 5ns}};
  const LayerSchedule schedule = list_schedule(tasks, two_and_two, rates);
  CHECK(schedule.start == std::vector<Duration>{0ns, 10ns, 10ns, 30ns});
  CHECK(schedule.makespan == 40ns);
  CHECK(least_makespan(tasks, two_and_two, rates) == 40ns);  // a, b
}

TEST_CASE("the makespan is at least the time of all traffic") {
  const PoolTask one{.tensor = true, .cores = 1, .time = 10ns, .traffic = Bytes{1000}};
  const std::vector<PoolTask> both{one, one};
  CHECK(list_schedule(both, two_and_two, rates).makespan == 20ns);  // 2000 B at 100 B/ns
  CHECK(least_makespan(both, two_and_two, rates) == 20ns);
}

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

TEST_SUITE_BEGIN("core tasks");
// 2 samples of 16 tokens, 64 features, 4 heads: 32 rows.
const std::vector<std::pair<std::string, std::string>> small_gpt_options{
    {"num_hidden_layers", "2"},
    {"hidden_size", "64"},
    {"num_attention_heads", "4"},
    {"length", "16"},
    {"vocab_size", "96"},
    {"batch", "2"},
    {"kernels", "fuse_modules=false"}};

TEST_CASE("shapes of GPT's GEMMs follow from flops and tensors") {
  const OpGraph graph = generated("gpt", small_gpt_options);
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

TEST_CASE("a fused attention's shape follows from its statistic, and it recomputes scores") {
  auto options = small_gpt_options;
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
  auto options = small_gpt_options;
  options.emplace_back("tensor", "2");
  const OpGraph graph = generated("gpt", options);
  CHECK(ops_of(graph, "h_0/attn/core")[0] == product(4, 16, 16, 16));
  CHECK(ops_of(graph, "h_1/mlp/c_fc") == std::vector{product(1, 32, 64, 128)});
}

TEST_CASE("GEMMs have the flops of the model's formula") {
  // A layer: 4 GEMMs of 64 x 64, 2 of 64 x 256; scores and values 2 x 16 x 64 per row. Twice
  // as many backward. The logits: 64 x 96.
  const std::int64_t layer = 4 * 64 * 64 + 2 * 64 * 256 + 2 * 16 * 64;
  CHECK(flops_of_products(generated("gpt", small_gpt_options)) ==
        3 * 2 * 32 * (2 * layer + 64 * 96));
}

TEST_CASE("dependencies pass through collectives; no task waits for weight gradients") {
  auto options = small_gpt_options;
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
  CHECK(holds(told, "of kind Conv2d: its GEMM shape is unknown"));
}
