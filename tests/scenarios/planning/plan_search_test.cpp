#include "scenarios/planning/plan_search.h"

#include "scenarios/read/device_table.h"
#include "tests/prelude.h"

namespace {

TrainingJob small_gpt(std::int64_t batch) {
  const auto text = [](const char* value) { return Options::Value{value, {}, {}}; };
  return {.generator = "gpt",
          .options = Options("gpt", {{"num_hidden_layers", text("4")},
                                     {"hidden_size", text("256")},
                                     {"num_attention_heads", text("4")},
                                     {"length", text("64")},
                                     {"vocab_size", text("1024")},
                                     {"tie_word_embeddings", text("false")}}),
          .batch = batch};
}

Cluster gpus_of(std::size_t count, Bytes memory) {
  IdVector<DeviceId, Device> devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i), .kind = "a100", .memory = memory});
  return Cluster::uniform(std::move(devices), Link{{100e9}, std::chrono::microseconds(5)});
}
std::shared_ptr<const Cluster> shared_gpus_of(std::size_t count, Bytes memory) {
  return std::make_shared<const Cluster>(gpus_of(count, memory));
}

const DeviceModel& gpu() { return *built_in_devices().devices.at("a100_megatron"); }

const PlanSpace space{.tensor = {1, 2}, .pipeline = {1, 4}, .micro_batch = {1, 4}};

Machines machines_of(std::size_t count, Bytes memory) {
  return {.cluster = gpus_of(count, memory),
          .devices = static_cast<std::int64_t>(count),
          .gpu = built_in_devices().devices.at("a100_megatron")};
}

PlanAnswer answer(std::size_t most, Bytes memory) {
  std::atomic<std::size_t> done = 0;
  return fastest_plans(small_gpt(16), space, machines_of(8, memory), most, done);
}

std::string text_of_plan(const ParallelPlan& plan) {
  return fmt::format("t {} seq {} c {} d {} p {} v {} {} b {} zero {} group {}", plan.tensor,
                     plan.sequence, plan.context, plan.data, plan.pipeline, plan.chunks,
                     plan.schedule, plan.micro_batch, plan.zero, plan.group);
}

/// A simulated step on 8 devices and its lower bounds, which are checked not to exceed it.
struct Bounds {
  Duration step{}, least{};
  Bytes peak{}, least_bytes{};
};
Bounds checked_bounds(const TrainingJob& job, const ParallelPlan& plan) {
  CAPTURE(text_of_plan(plan));
  const OpGraph rank = rank_graph(job, plan);
  const ParallelStep step(rank, job, plan, shared_gpus_of(8, 80_GiB));
  const pipeline::PipelineResult simulated = step.simulated(gpu(), true);
  Bounds b{.step = simulated.makespan,
           .least = least_step(step, gpu()),
           .least_bytes = least_memory(rank, job, plan)};
  for (const pipeline::StageUse& stage : simulated.stages) b.peak = std::max(b.peak, stage.peak);
  CHECK(b.least <= b.step);
  CHECK(early_least_step(rank, roofline_times(rank, gpu()), job, plan, gpus_of(8, 80_GiB)) <=
        b.least);
  CHECK(b.least_bytes <= b.peak);
  return b;
}

}  // namespace

TEST_SUITE_BEGIN("plan search");
TEST_CASE("a plan uses all devices, and divides the batch evenly") {
  // 8 devices: tensor 1 or 2, 1 or 4 stages leave 8, 2, 4, 1 replicas. A batch of 16 gives 2,
  // 8, 4, 16 samples to each: micro-batches of 1 always, of 4 in all but the first. That makes 7
  // times with and without recomputing; with ZeRO 1, 2 and 3 where there are replicas: 5 of
  // the 7.
  const std::vector<ParallelPlan> plans = plans_of(space, 8, 16);
  CHECK(plans.size() == 2 * (7 + 3 * 5));
  for (const ParallelPlan& plan : plans) {
    CHECK(plan.ranks() == 8);
    CHECK(plan.data * plan.micro_batch * plan.micro_batches(16) == 16);
  }
  CHECK(plans_of(space, 6, 16).empty());  // 6 replicas, or 3
  // Two schedules of stages with one chunk, and one plan of interleaved ones.
  CHECK(plans_of({.tensor = {1},
                  .pipeline = {2},
                  .micro_batch = {1},
                  .chunks = {1, 2},
                  .recompute = {Recomputing::off},
                  .schedule = {"1f1b_flush", "gpipe"},
                  .zero = {0}},
                 2, 4)
            .size() == 3);
}

TEST_CASE("the answer is that of simulating every plan") {
  const PlanAnswer all = answer(100, 80_GiB), three = answer(3, 80_GiB);
  CHECK(all.considered == 44);
  CHECK(all.simulated == 44);
  CHECK(all.fastest.size() == 44);
  CHECK(three.simulated + three.slower == 44);
  REQUIRE(three.fastest.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(three.fastest[i].plan == all.fastest[i].plan);
    CHECK(three.fastest[i].step == all.fastest[i].step);
  }
  CHECK(std::ranges::is_sorted(all.fastest, {}, &SimulatedPlan::step));
}

TEST_CASE("steps are simulated in the order of their lower bounds, however few are built") {
  // The rule without early bounds: all steps are built, sorted by least_step(), and simulated by
  // fours until the first of four is above the third-best step.
  const TrainingJob job = small_gpt(16);
  std::vector<std::pair<Duration, Duration>> steps;  // least, simulated
  for (const ParallelPlan& plan : plans_of(space, 8, 16)) {
    const ParallelStep step(rank_graph(job, plan), job, plan, shared_gpus_of(8, 80_GiB));
    steps.emplace_back(least_step(step, gpu()), step.simulated(gpu(), true).makespan);
  }
  std::ranges::sort(steps);
  std::vector<Duration> best;
  std::size_t simulated = 0;
  while (simulated < steps.size() && (best.size() < 3 || steps[simulated].first <= best[2])) {
    for (std::size_t i = 0; i < 4 && simulated < steps.size(); ++i)
      best.push_back(steps[simulated++].second);
    std::ranges::sort(best);
  }
  const PlanAnswer three = answer(3, 80_GiB);
  CHECK(three.simulated == simulated);
  CHECK(three.slower == 44 - simulated);
  CHECK(simulated < 44);
  for (std::size_t i = 0; i < 3; ++i) CHECK(three.fastest[i].step == best[i]);
}

TEST_CASE("no step is shorter, and none takes less memory, than its lower bounds") {
  const TrainingJob job = small_gpt(16);
  for (const ParallelPlan& plan : plans_of(space, 8, 16)) {
    const Bounds b = checked_bounds(job, plan);
    CHECK(2 * b.least > b.step);
    CHECK(4 * b.least_bytes > b.peak);  // ZeRO 3: weights gathered for two passes, too
  }
}

TEST_CASE("the early bound holds where kernels take the time, not launches") {
  TrainingJob job = small_gpt(16);
  job.options.set("hidden_size", {"4096", {}, {}});
  job.options.set("length", {"1024", {}, {}});
  for (const ParallelPlan& plan : plans_of(space, 8, 16)) {
    CAPTURE(text_of_plan(plan));
    const OpGraph rank = rank_graph(job, plan);
    const ParallelStep step(rank, job, plan, shared_gpus_of(8, 80_GiB));
    const Duration early =
        early_least_step(rank, roofline_times(rank, gpu()), job, plan, gpus_of(8, 80_GiB));
    CHECK(early <= least_step(step, gpu()));
    CHECK(2 * early > least_step(step, gpu()));
  }
}

TEST_CASE("the lower bounds hold for plans of every kind") {
  const TrainingJob job = small_gpt(16);
  const PlanSpace all{.tensor = {1, 2},
                      .pipeline = {1, 2},
                      .micro_batch = {1, 2},
                      .context = {1, 2},
                      .chunks = {1, 2},
                      .sequence = {false, true},
                      .recompute = {Recomputing::off, Recomputing::selective},
                      .schedule = {"1f1b_flush", "gpipe"},
                      .zero = {0, 3},
                      .group = {0, 2}};
  PlanSpace overlapped = all;
  overlapped.overlap = true;
  std::vector<ParallelPlan> plans = plans_of(all, 8, 16);
  std::ranges::copy(plans_of(overlapped, 8, 16), std::back_inserter(plans));
  CHECK(plans.size() > 50);
  for (std::size_t i = 0; i < plans.size(); i += 5)  // not alike in any axis
    checked_bounds(job, plans[i]);
}

TEST_CASE("a step is that of all micro-batches, of which few are simulated") {
  const TrainingJob job = small_gpt(128);
  const PlanSpace all{.tensor = {1, 2},
                      .pipeline = {1, 2, 4},
                      .micro_batch = {1},
                      .chunks = {1, 2},
                      .recompute = {Recomputing::off, Recomputing::full},
                      .schedule = {"1f1b_flush", "gpipe"},
                      .zero = {0, 2, 3}};
  for (const ParallelPlan& plan : plans_of(all, 8, 128)) {
    CAPTURE(text_of_plan(plan));
    const OpGraph rank = rank_graph(job, plan);
    if (plan.pipeline * plan.chunks > most_parts(rank)) continue;
    const ParallelStep step(rank, job, plan, shared_gpus_of(8, 80_GiB));
    const OpGraph timed = step.graph().with_times("a100", step.times(gpu()));
    const ProfiledCosts costs(timed, step.cluster());
    const pipeline::PipelineResult whole = pipeline::simulate_pipeline(
        {timed, step.cluster(), costs, {.transfers = Transfers::duplex}}, {.device = step.device()},
        {.schedule = std::string(plan.passes().name),
         .micro_batches = static_cast<std::size_t>(step.micro_batches())});
    const pipeline::PipelineResult found = step.simulated(gpu(), true);
    CHECK(found.makespan == whole.makespan);
    CHECK(found.bubble == whole.bubble);
    REQUIRE(found.stages.size() == whole.stages.size());
    for (std::size_t s = 0; s < whole.stages.size(); ++s) {
      CHECK(found.stages[s].peak == whole.stages[s].peak);
      CHECK(found.stages[s].by_kind.activations == whole.stages[s].by_kind.activations);
      CHECK(found.stages[s].busy == whole.stages[s].busy);
    }
  }
}

TEST_CASE("interleaved stages have layers 0 and 2, 1 and 3, and a shorter bubble") {
  const TrainingJob job = small_gpt(16);
  ParallelPlan plan{.pipeline = 2, .micro_batch = 1, .recompute = Recomputing::off};
  const auto bubble = [&] {
    return ParallelStep(rank_graph(job, plan), job, plan, shared_gpus_of(2, 80_GiB))
        .simulated(gpu(), false)
        .bubble;
  };
  const double line = bubble();
  plan.chunks = 2;
  CHECK(bubble() < line);
  const OpGraph rank = rank_graph(job, plan);
  const IdVector<OpId, DeviceId> device = devices_of_stages(rank, plan, 2);
  for (const auto& [name, stage] :
       {std::pair{"h_0/attn", 0U}, {"h_1/attn", 1U}, {"h_2/attn", 0U}, {"h_3/attn_grad", 1U}})
    CHECK(index(device[*rank.find(name)]) == stage);
  CHECK(index(device[*rank.find("lm_head")]) == 1);
}

TEST_CASE("with two stages more than layers, embedding and logits have a stage each") {
  const TrainingJob job = small_gpt(16);
  ParallelPlan plan{.pipeline = 6, .micro_batch = 1, .recompute = Recomputing::off};
  const OpGraph rank = rank_graph(job, plan);
  CHECK(most_parts(rank) == 6);
  const IdVector<OpId, DeviceId> device = devices_of_stages(rank, plan, 8);
  for (const OpId v : rank.ops()) {
    const std::string name(rank.name(v));
    const std::size_t stage = index(device[v]);
    if (name.starts_with("h_")) CHECK_MESSAGE(stage == std::size_t(name[2] - '0') + 1, name);
  }
  CHECK(index(device[*rank.find("lm_head")]) == 5);
  CHECK(index(device[*rank.find("embeddings")]) == 0);
  // It runs, and the engine's step is that of the plan's scenario form: five sends each way.
  const auto step =
      ParallelStep(rank, job, plan, shared_gpus_of(6, 80_GiB)).simulated(gpu(), false);
  CHECK(step.makespan > Duration{});
  plan.pipeline = 7;
  CHECK_REFUSED(ParallelStep(rank, job, plan, shared_gpus_of(7, 80_GiB)), "7 stages of 4 layers");
}

// Three parts of embeddings, four layers and logits have two each; of four layers two, one, one.
TEST_CASE("embeddings and logits count as a layer each where a plan says so") {
  const TrainingJob job = small_gpt(16);
  ParallelPlan plan{.pipeline = 3, .micro_batch = 1, .recompute = Recomputing::off};
  const OpGraph rank = rank_graph(job, plan);
  const auto part = [&](const char* op) { return parts_of_ops(rank, plan)[*rank.find(op)]; };
  CHECK(part("h_1/attn") == 0);
  CHECK(part("h_2/attn") == 1);
  plan.count_ends = true;
  CHECK(part("h_0/attn") == 0);
  CHECK(part("h_1/attn") == 1);
  CHECK(part("h_2/attn") == 1);
  CHECK(part("h_3/attn") == 2);
  CHECK(part("lm_head") == 2);
}

// Two stages of two layers: the first of each runs again, or what it keeps is elsewhere.
TEST_CASE("of each chunk some layers are computed again, or in the host's memory") {
  const TrainingJob job = small_gpt(16);
  ParallelPlan plan{
      .pipeline = 2, .micro_batch = 1, .recompute = Recomputing::full, .recompute_layers = 1};
  const auto again = [](const OpGraph& graph, const char* op) {
    return graph.find(fmt::format("{}/again", op)).has_value();
  };
  const OpGraph computed = rank_graph(job, plan);
  CHECK(again(computed, "h_0/attn"));
  CHECK_FALSE(again(computed, "h_1/attn"));
  CHECK(again(computed, "h_2/attn"));
  CHECK_FALSE(again(computed, "h_3/attn"));
  CHECK(plan.of_rank().pipeline == 2);
  plan.recompute = Recomputing::off;
  CHECK(holds(plan.mistake(16), "--recompute full"));
  plan.recompute_layers = 0;
  plan.offload_layers = 1;
  const OpGraph offloaded = rank_graph(job, plan);
  CHECK(again(offloaded, "h_2/attn"));
  CHECK_FALSE(again(offloaded, "h_3/attn"));
  CHECK(offloaded.kernels(*offloaded.find("h_2/attn/again")).empty());
  plan.recompute = Recomputing::full;
  CHECK_FALSE(plan.mistake(16).empty());
}

TEST_CASE("the last stage holds a copy of the embeddings that the logits share") {
  // In fp16 the last of two stages keeps 2 bytes for each weight of 2 layers, 12 h^2 + 13 h, and
  // of the logits, 1024 h; and 4 for those of the last norm, 2 h. One stage keeps them once.
  TrainingJob job = small_gpt(16);
  job.options.set("tie_word_embeddings", {"true", {}, {}});
  const std::int64_t h = 256, layer = 12 * h * h + 13 * h, table = 1024 * h;
  const auto weights = [&](std::int64_t stages) {
    const ParallelPlan plan{.pipeline = stages, .micro_batch = 1, .recompute = Recomputing::off};
    return simulated_plan(job, plan, machines_of(static_cast<std::size_t>(stages), 80_GiB))
        .stages.back()
        .by_kind.weights.count;
  };
  CHECK(weights(2) == 2 * (2 * layer + table) + 4 * 2 * h);
  CHECK(weights(1) == 2 * (4 * layer + table + 64 * h) + 4 * 2 * h);
}

TEST_CASE("what each stage of ZeRO keeps and sends") {
  // Weights: 2 x 1024 x 256 of the two embeddings, 64 x 256 of positions, 4 layers of 12 h^2 +
  // 13 h, and 2 h of the last norm. In fp16 each takes 2 bytes; its gradient 2; Adam's
  // numbers and the 32-bit copy 8 + 4.
  const std::int64_t h = 256, n = 2 * 1024 * h + 64 * h + 4 * (12 * h * h + 13 * h) + 2 * h;
  struct Row {
    int zero;
    double weights, gradients, optimizer;           // bytes of a weight that a replica of 8 keeps
    double all_reduce, reduce_scatter, all_gather;  // bytes of a weight in a micro-batch or step
  };
  const TrainingJob job = small_gpt(16);
  for (const Row& row :
       {Row{0, 2, 2, 12, 2, 0, 0}, Row{1, 2, 2, 1.5, 0, 2, 2}, Row{2, 2, 0.25, 1.5, 0, 2, 2},
        // gathered for the forward and for the backward pass
        Row{3, 0.25, 0.25, 1.5, 0, 2, 4}}) {
    CAPTURE(row.zero);
    const ParallelPlan plan{
        .data = 8, .micro_batch = 2, .recompute = Recomputing::off, .zero = row.zero};
    const ParallelStep step(rank_graph(job, plan), job, plan, shared_gpus_of(8, 80_GiB));
    std::array<std::int64_t, 3> kept{};
    for (const OpId v : step.graph().ops())
      kept[static_cast<std::size_t>(step.graph().op(v).phase)] +=
          step.graph().op(v).persistent.count;
    std::map<CollectiveKind, std::int64_t> sent;
    for (const Collective& c : step.graph().collectives()) {
      sent[c.kind] += c.bytes.count;
      CHECK(c.ranks == 8);
    }
    const auto per_weight = [&](std::int64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(n);
    };
    CHECK(per_weight(kept[0]) == doctest::Approx(row.weights).epsilon(1e-4));
    CHECK(per_weight(kept[1]) == doctest::Approx(row.gradients).epsilon(1e-4));
    CHECK(per_weight(kept[2]) == doctest::Approx(row.optimizer).epsilon(1e-4));
    // The last norm stays in 32 bits: its 2 h weights and their gradients take twice the bytes.
    const double more = 1.0 + 2.0 * static_cast<double>(h) / static_cast<double>(n);
    const auto is = [&](double bytes) { return doctest::Approx(more * bytes); };
    CHECK(per_weight(sent[CollectiveKind::all_reduce]) == is(row.all_reduce));
    CHECK(per_weight(sent[CollectiveKind::reduce_scatter]) == is(row.reduce_scatter));
    CHECK(per_weight(sent[CollectiveKind::all_gather]) == is(row.all_gather));
    // The peak by kind says the same.
    const PeakMemory peak = step.simulated(gpu(), true).stages.at(0).by_kind;
    CHECK(peak.weights.count == kept[0]);
    CHECK(peak.gradients.count == kept[1]);
    CHECK(peak.optimizer_state.count == kept[2]);
  }
}

TEST_CASE("ZeRO 2 sends the gradients of every micro-batch") {
  // R(x): a reduce_scatter of x bytes among 8: 7 passes of an eighth of them at 100 GB/s, with
  // 5 us each. Passes take as long as their launches, of which a first bucket of 1 MB or more
  // takes none. ZeRO 1: 4 passes, then R of all gradients, updates, an all_gather. ZeRO 2: R of
  // the last bucket behind each of the passes, then the same updates and all_gather.
  const TrainingJob job = small_gpt(32);
  const auto step = [&](int zero) {
    const ParallelPlan plan{
        .data = 8, .micro_batch = 1, .recompute = Recomputing::off, .zero = zero};
    return ParallelStep(rank_graph(job, plan), job, plan, shared_gpus_of(8, 80_GiB));
  };
  const auto scattered = [](const ParallelStep& of) {
    std::vector<double> ns;
    for (const Collective& c : of.graph().collectives())
      if (c.kind == CollectiveKind::reduce_scatter)
        ns.push_back(7.0 * (5e3 + static_cast<double>(c.bytes.count) / 8.0 / 100.0));
    return ns;
  };
  const ParallelStep one = step(1), two = step(2);
  REQUIRE(scattered(one).size() == 1);
  REQUIRE(scattered(two).size() == 2);
  // Kernels behind the launches add shares of gradients in ZeRO 2: 3 us less.
  DeviceModel slow_host = gpu();
  slow_host.host_op = std::chrono::microseconds(60);
  const Duration more =
      two.simulated(slow_host, false).makespan - one.simulated(slow_host, false).makespan;
  CHECK(static_cast<double>(more.count()) ==
        doctest::Approx(4.0 * scattered(two)[1] - scattered(one)[0]).epsilon(0.02));
}

TEST_CASE("memory decides: recomputed layers keep less, and what cannot fit is not simulated") {
  const TrainingJob job = small_gpt(16);
  const auto activations = [&](Recomputing recompute) {
    const ParallelPlan plan{.data = 8, .micro_batch = 2, .recompute = recompute};
    const ParallelStep step(rank_graph(job, plan), job, plan, shared_gpus_of(8, 80_GiB));
    return step.simulated(gpu(), true).stages.at(0).by_kind.activations;
  };
  CHECK(activations(Recomputing::full) < activations(Recomputing::selective));
  // 4 heads of 64 x 64 probabilities for each of 2 samples in each of 4 layers, in fp16: written
  // before and after dropout, with a mask of bytes, and none of them kept. fp16 halves them, but
  // not masks.
  const std::int64_t scores = 2 * 4 * 64 * 64;
  CHECK(activations(Recomputing::off) - activations(Recomputing::selective) ==
        Bytes{4 * ((4 + 4) / 2 + 1) * scores});
  const PlanAnswer none = answer(3, 1_MiB);
  CHECK(none.fastest.empty());
  CHECK(none.too_large == 44);
  const PlanAnswer some = answer(44, 20_MiB);
  CHECK(some.too_large > 0);
  CHECK(some.too_large + some.simulated == 44);
  for (const SimulatedPlan& row : some.fastest) CHECK(row.fullest().peak <= 20_MiB);
}

TEST_CASE("plans that the model cannot be divided by are left out") {
  // Two ranks of tensor parallelism divide the tokens, and the experts only if two ranks or more
  // share them. ZeRO 3 gathers experts beside the other weights: each kind in its own order.
  const auto text = [](const char* value) { return Options::Value{value, {}, {}}; };
  const TrainingJob job{.generator = "moe",
                        .options = Options("moe", {{"num_hidden_layers", text("2")},
                                                   {"hidden_size", text("256")},
                                                   {"length", text("64")},
                                                   {"vocab_size", text("1024")}}),
                        .batch = 8};
  PlanSpace both{.tensor = {1, 2}, .pipeline = {1}, .micro_batch = {1}};
  both.expert = {1, 2};
  both.sequence = {false, true};
  both.recompute = {Recomputing::off};
  both.zero = {3};
  std::atomic<std::size_t> done = 0;
  const PlanAnswer found = fastest_plans(job, both, machines_of(4, 64_GiB), 9, done);
  std::vector<std::pair<std::int64_t, std::int64_t>> divided;
  for (const SimulatedPlan& plan : found.fastest)
    divided.emplace_back(plan.plan.tensor, plan.plan.expert);
  std::ranges::sort(divided);
  CHECK(divided == std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 2}, {2, 2}});
  CHECK(found.considered == 3);
  both.tensor = {2};
  both.expert = {1};
  both.sequence = {true};
  CHECK_REFUSED(fastest_plans(job, both, machines_of(4, 64_GiB), 9, done),
                "moe.expert: 1 are not 2 ranks of tensor parallelism once or more");
}

TEST_CASE("a model that ranks cannot share has no tensor parallelism, and none without a batch") {
  TrainingJob job{.generator = "resnet50", .options = Options("resnet50"), .batch = 8};
  CHECK(message<InputError>([&] {
          rank_graph(job, {.tensor = 2});
        }).starts_with("resnet50 has no option 'tensor'"));
  job = {.generator = "layered", .options = Options("layered"), .batch = 8};
  CHECK(message<InputError>([&] {
          rank_graph(job, {});
        }).starts_with("layered has no option 'batch'"));
}

TEST_CASE("a device stands for its stage's ranks, on the first node of the stage") {
  // 2 ranks of tensor parallelism and 2 replicas on nodes of 8: stages 0 and 1 share a node.
  const ParallelPlan small{.tensor = 2, .data = 2, .pipeline = 4};
  CHECK(index(small.device(1, 8)) == 4);
  CHECK(index(small.device(3, 8)) == 12);
  // 16,384 ranks in 16 stages of 1024, which fill 128 nodes each: the 16 first nodes are enough.
  const ParallelPlan large{.tensor = 8, .data = 128, .pipeline = 16};
  CHECK(large.ranks() == 16'384);
  CHECK(index(large.device(15, 8)) == 15 * 8);
  // Stages of 12 ranks begin in the middle of every second node.
  const ParallelPlan odd{.tensor = 4, .data = 3, .pipeline = 2};
  CHECK(index(odd.device(1, 8)) == 8 + 4);
}

TEST_CASE("a plan says what is wrong with it") {
  CHECK(ParallelPlan{.data = 3}.mistake(16) ==
        "a batch of 16 cannot be divided among 3 replicas in parts of 1");
  CHECK(ParallelPlan{.zero = 1}.mistake(16) == "ZeRO divides among replicas, and there is one");
  CHECK(ParallelPlan{.pipeline = 4, .chunks = 2}.mistake(3) ==
        "4 interleaved stages need as many micro-batches, not 3");
  CHECK(ParallelPlan{.pipeline = 4, .chunks = 2}.mistake(5).empty());
  CHECK(ParallelPlan{.data = 4, .zero = 3, .group = 3}.mistake(16) ==
        "4 replicas cannot be divided into groups of 3");
  CHECK(why_no_plan({.tensor = {3}, .pipeline = {1}, .micro_batch = {1}}, 8, 16) ==
        "3 ranks of tensor, context and pipeline parallelism do not divide 8 devices");
}

TEST_CASE("a search without plans says what is wrong with the first combination") {
  const auto why = [](const PlanSpace& of) {
    std::atomic<std::size_t> done = 0;
    return message<InputError>(
        [&] { fastest_plans(small_gpt(16), of, machines_of(8, 80_GiB), 3, done); });
  };
  CHECK(why({.tensor = {2}, .pipeline = {4}, .micro_batch = {1}, .zero = {2, 3}}) ==
        "no plan: ZeRO divides among replicas, and there is one");
  CHECK(why({.tensor = {1}, .pipeline = {8}, .micro_batch = {1}}) ==
        "no plan: the model has 6 parts, fewer than stages");
}

TEST_CASE("what plans choose is not the model's") {
  TrainingJob job = small_gpt(16);
  job.options.set("tensor", {"2", {}, {}});
  CHECK_REFUSED(rank_graph(job, {}), "gpt.tensor: plans choose it");
}
