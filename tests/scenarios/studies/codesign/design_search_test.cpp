#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/studies/codesign/codesign.h"
#include "tests/prelude.h"
#include "traces/format/compressed_file.h"

namespace {

/// 1000 um2 per multiplier, 2000 per lane, 1.5 mm2 per MiB.
AreaTable round_areas() {
  AreaTable table;
  for (std::int64_t n = 1; n <= 1 << 16; n *= 2) {
    table.tensor_core[n] = 1000.0 * static_cast<double>(n);
    table.vector_core[n] = 2000.0 * static_cast<double>(n);
  }
  for (const std::int64_t mib : {1, 2, 4, 8, 16, 32})
    table.buffer[Bytes{mib << 20}] = 1.5e6 * static_cast<double>(mib);
  return table;
}

TrainingJob searched_gpt() {
  TrainingJob job{.generator = "gpt", .options = Options("gpt"), .batch = 32};
  for (const auto& [key, value] : {std::pair{"num_hidden_layers", "4"},
                                   {"hidden_size", "256"},
                                   {"num_attention_heads", "4"},
                                   {"length", "128"},
                                   {"vocab_size", "1024"}})
    job.options.set(key, {value, {}, {}});
  return job;
}

Cluster eight_devices(Bytes memory) {
  return Cluster::uniform(8, memory, Link{.bandwidth = {20e9}, .latency = {}});
}

/// 5 x 4 x 2 x 1 x 5 = 200 architectures.
CodesignChoice two_hundred() {
  CodesignChoice choice;
  choice.space = {.tensor_cores = {1, 2, 4, 8, 16},
                  .vector_cores = {1, 2, 4, 8},
                  .width = {16, 32},
                  .depth = {32},
                  .buffer = {1_MiB, 2_MiB, 4_MiB, 8_MiB, 16_MiB}};
  choice.area = 50e6;
  choice.batch = 32;
  choice.micro_batch = {1, 2};
  choice.tensor = {1, 2};
  choice.rates = {.clock = 1e9, .memory = {100e9}};
  return choice;
}

DesignAnswer searched(const CodesignChoice& choice, Bytes memory = 1_GiB) {
  const Cluster cluster = eight_devices(memory);
  const DesignPlanner planner(searched_gpt(), choice, cluster);
  std::atomic<std::size_t> done{0};
  return search_designs(planner, designs_within(choice, round_areas()), choice, done);
}

const VisitedDesign& best(const DesignAnswer& answer) {
  REQUIRE(answer.best);
  return answer.visited[*answer.best];
}

}  // namespace

TEST_SUITE_BEGIN("design search");
TEST_CASE("architectures within the limits, the largest first") {
  CodesignChoice choice = two_hundred();
  DesignList list = designs_within(choice, round_areas());
  CHECK(list.combinations == 200);
  CHECK(list.designs.size() == 200);  // the largest: 16 x 1024, 8 x 32 lanes, 16 MiB = 40.9 mm2
  CHECK(list.designs.front().design == Accelerator{16, 8, 32, 32, 16_MiB});
  CHECK(list.designs.front().area == 16 * 1024e3 + 8 * 64e3 + 24e6);
  choice.reference = Accelerator{1, 1, 16, 32, 1_MiB};  // 512e3 + 32e3 + 1.5e6
  choice.area.reset();
  list = designs_within(choice, round_areas());
  CHECK(list.limit == 2'044e3);
  CHECK(list.designs.size() == 1);
  choice.reference->depth = 3;
  CHECK_REFUSED(designs_within(choice, round_areas()),
                doctest::Contains("has no areas for 1 x 16x3 + 1 x 16 + 1.00 MiB"));
}

TEST_CASE("both orders find the optimum of 200 architectures, and neither visits all") {
  for (const CodesignPlanner planner : all<CodesignPlanner>()) {
    CAPTURE(to_text(planner));
    CodesignChoice choice = two_hundred();
    choice.planner = planner;
    choice.patience = 0;
    const DesignAnswer exhaustive = searched(choice);
    CHECK(exhaustive.visited.size() == 200);
    CHECK(exhaustive.proved);
    choice.patience = 5;
    const DesignAnswer by_area = searched(choice);
    CHECK(best(by_area).plan->seconds == best(exhaustive).plan->seconds);
    CHECK(by_area.share() <= 0.25);
    choice.order = CodesignOrder::bound;
    const DesignAnswer by_bound = searched(choice);
    CHECK(best(by_bound).plan->seconds == best(exhaustive).plan->seconds);
    CHECK(best(by_bound).sized.design == best(exhaustive).sized.design);
    CHECK(by_bound.proved);
    CHECK(by_bound.share() < 0.75);
    MESSAGE(to_text(planner), ": visits by area ", by_area.visited.size(), ", by bound ",
            by_bound.visited.size());
  }
}

TEST_CASE("no plan is faster than the bound, and more area is not less throughput at the front") {
  CodesignChoice choice = two_hundred();
  choice.patience = 0;
  const Cluster cluster = eight_devices(1_GiB);
  for (const CodesignPlanner kind : all<CodesignPlanner>()) {
    choice.planner = kind;
    const DesignPlanner planner(searched_gpt(), choice, cluster);
    for (const SizedDesign& d : designs_within(choice, round_areas()).designs) {
      const auto plan = planner.best(d.design);
      REQUIRE(plan);
      CHECK(planner.least_seconds(d.design) <= plan->seconds);
      CHECK(plan->devices <= 8);
    }
  }
  choice.planner = CodesignPlanner::data_pipeline_tensor;
  const DesignAnswer answer = searched(choice);
  for (const VisitedDesign& a : answer.visited) {
    bool beaten = false;
    for (const VisitedDesign& b : answer.visited)
      beaten = beaten || (b.sized.area <= a.sized.area && b.plan->seconds < a.plan->seconds);
    if (beaten) CHECK_FALSE(a.on_front);
  }
  CHECK(best(answer).on_front);
}

TEST_CASE("the reference is visited first, so that the best is never worse") {
  CodesignChoice choice = two_hundred();
  choice.reference = Accelerator{16, 8, 32, 32, 16_MiB};
  choice.area.reset();
  choice.patience = 1;
  const DesignAnswer answer = searched(choice);
  REQUIRE(answer.reference == 0);
  CHECK(answer.visited[0].sized.design == *choice.reference);
  CHECK(best(answer).plan->seconds <= answer.visited[0].plan->seconds);
}

TEST_CASE("devices without memory give no plan") {
  CodesignChoice choice = two_hundred();
  for (const CodesignPlanner planner : all<CodesignPlanner>()) {
    choice.planner = planner;
    const DesignAnswer answer = searched(choice, 1_MiB);
    CHECK_FALSE(answer.best);
    CHECK_FALSE(answer.visited.empty());
  }
}

TEST_CASE("a plan of one stage and one replica is the sum of its blocks' passes") {
  CodesignChoice choice = two_hundred();
  choice.batch = 4;
  choice.micro_batch = {1};
  choice.tensor = {1};
  const Cluster cluster = Cluster::uniform(1, 1_GiB, Link{.bandwidth = {20e9}, .latency = {}});
  const Accelerator design{4, 2, 32, 32, 8_MiB};
  const TrainingWork work = training_work(searched_gpt(), 1, 1, cluster);
  CHECK(work.layers() == 4);
  // Before, three layers, the last, after: only the last layer's output has one reader, so that
  // no gradients are reduced after it.
  CHECK(work.kinds.size() == 4);
  Duration passes{}, updates{};
  for (const std::uint32_t kind : work.blocks)
    for (std::size_t phase = 0; phase < 3; ++phase) {
      const auto tasks = pool_tasks(work.kinds[kind].passes[phase], design, choice.rates);
      (phase == 2 ? updates : passes) += list_schedule(tasks, design, choice.rates).makespan;
    }
  const auto plan = DesignPlanner(searched_gpt(), choice, cluster).best(design);
  REQUIRE(plan);
  CHECK(plan->stages == 1);
  CHECK(plan->seconds == doctest::Approx((4 * to_us(passes) + to_us(updates)) / 1e6));
}

TEST_CASE("PHAZE's space: visits below a quarter, never worse than a chip like a TPUv3") {
  const ScenarioFile file =
      load_scenario(source_dir() + std::string("/scenarios/papers/phaze_icml24/training.yaml"), {});
  const CodesignResult found = codesign_of(file, [](const auto&, std::size_t) { return nullptr; });
  // The list has those below 30 % of the area, too.
  CHECK(found.answer.designs == 23'580);
  CHECK(found.answer.share() < 0.25);
  REQUIRE(found.gain());
  CHECK(*found.gain() >= 1.0);
}

TEST_SUITE_BEGIN("area files");
TEST_CASE("a table of parts") {
  const TemporaryFolder folder;
  const std::string path = folder.write("areas.csv",
                                        "part,size,area_um2\n"
                                        "tensor_core,32,100.5\n"
                                        "vector_core,4,7\n"
                                        "buffer,1 MiB,1000\n");
  // 3 x 100.5 + 2 x 7 + 1000.
  CHECK(read_area_table(path).area({3, 2, 4, 8, 1_MiB}) == 1315.5);
  CHECK_FALSE(read_area_table(path).area({3, 2, 4, 8, 2_MiB}));
}

TEST_CASE("the parts' areas follow from differences of listed accelerators") {
  const TemporaryFolder folder;
  // T(4) = 10, V(2) = 3, B = 100.
  const auto entry = [](int tc, int vc, double area) {
    return fmt::format(R"({{"num_tc": {}, "num_vc": {}, "width": 2, "depth": 2, "width_vc": 2, )"
                       R"("GLB_Buffer": 1024, "area": {}}})",
                       tc, vc, area);
  };
  const std::string list =
      "[" + entry(1, 1, 113) + "," + entry(3, 1, 133) + "," + entry(1, 5, 125) + "]";
  const AreaTable table = read_area_table(folder.write("list.json", list));
  CHECK(table.tensor_core.at(4) == 10.0);
  CHECK(table.vector_core.at(2) == 3.0);
  CHECK(table.buffer.at(Bytes{1024}) == 100.0);
  // One that is not such a sum: 3 x 10 + 5 x 3 + 100 = 145.
  const std::string wrong = "[" + entry(1, 1, 113) + "," + entry(3, 1, 133) + "," +
                            entry(1, 5, 125) + "," + entry(3, 5, 146) + "]";
  const std::string mistake =
      message<InputError>([&] { read_area_table(folder.write("wrong.json", wrong)); });
  CHECK(holds(mistake, "is not the sum of its parts"));
}

TEST_CASE("mistakes are reported with their positions") {
  const TemporaryFolder folder;
  const auto mistake = [&](const std::string& text) {
    return message<InputError>([&] { read_area_table(folder.write("a.csv", text)); });
  };
  CHECK(mistake("part,size,area_um2\ncore,4,1\n")
            .ends_with("a.csv:2:1: 'core' is not one of tensor_core, vector_core, buffer"));
  CHECK(mistake("part,size,area_um2\nbuffer,4,1\n")
            .ends_with("a.csv:2:8: '4' is not a size such as '64 MiB'"));
  CHECK(mistake("part,size,area_um2\nvector_core,4,1\nvector_core,4,1\n")
            .ends_with("a.csv:3:13: a vector_core of 4 is listed twice"));
  CHECK(mistake("[1, 2]").ends_with("accelerator 0 has no number 'num_tc' above 0"));
  CHECK(holds(mistake("{}"), "neither CSV"));
}

TEST_CASE("PHAZE's 29 360 areas are sums of their parts, within 10^-9") {
  const std::filesystem::path data = testing::published_data();
  const std::string path = (data / "phaze" / "cores.json.zst").string();
  const AreaTable table = read_area_table(path);
  const auto list = nlohmann::json::parse(read_file(path));
  CHECK(list.size() == 29'360);
  CHECK(table.tensor_core.size() == 15);
  CHECK(table.vector_core.size() == 8);
  CHECK(table.buffer.size() == 7);
  double worst = 0.0;
  for (const auto& entry : list) {
    const auto whole = [&](const char* key) { return entry[key].get<std::int64_t>(); };
    const auto area = entry["area"].get<double>();
    const Accelerator design{whole("num_tc"), whole("num_vc"), whole("width"), whole("depth"),
                             Bytes{whole("GLB_Buffer")}};
    worst = std::max(worst, std::abs(*table.area(design) - area) / area);
  }
  CHECK(worst < 1e-9);
  CHECK(*table.area({8, 2, 128, 128, 128_MiB}) == doctest::Approx(278'826'676.3).epsilon(1e-9));
}
