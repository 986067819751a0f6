#include <tuple>

#include "placers/exact/replicated_split.h"
#include "placers/files/placement_file.h"
#include "placers/interface/registry.h"
#include "sim/pipeline/unroll.h"
#include "tests/placers/exact/brute_force.h"
#include "tests/placers/exact/small_problem.h"
#include "tests/prelude.h"

namespace {

std::unique_ptr<Placer> replicating(std::int64_t micro_batches) {
  return make_placer(
      "exact_dp",
      Options("exact_dp", {{"replicate", {"true", "", {}}},
                           {"micro_batches", {std::to_string(micro_batches), "", {}}}}));
}

std::unique_ptr<Placer> replicating_split(std::int64_t micro_batches, bool contiguous) {
  return make_placer(
      "mip_max_load",
      Options("mip_max_load", {{"replicate", {"true", "", {}}},
                               {"contiguous", {contiguous ? "true" : "false", "", {}}},
                               {"micro_batches", {std::to_string(micro_batches), "", {}}}}));
}

/// The load per sample of each of `r` replicas, with links of 1 byte/ns.
Duration replicated(Duration load, Bytes weights, std::int64_t r, std::int64_t micro_batches,
                    bool training) {
  if (r == 1) return load;
  const double samples = static_cast<double>(micro_batches == 0 ? r : micro_batches);
  const double exchange =
      4.0 * static_cast<double>((r - 1) * weights.count) / (static_cast<double>(r) * samples);
  return Duration{(load.count() + r - 1) / r + (training ? std::llround(exchange) : 0)};
}

/// The least time per sample of a placement whose devices are stages, over all numbers of replicas
/// that the unused devices allow.
class ReplicatedLoad final : public Objective, public Evaluator {
 public:
  ReplicatedLoad(const Problem& problem, std::int64_t micro_batches)
      : problem_(problem), micro_batches_(micro_batches) {
    for (const OpId v : problem.graph.ops())
      training_ = training_ || problem.graph.op(v).phase != Phase::forward;
  }
  std::unique_ptr<Evaluator> on(const Problem&) const override {
    return std::make_unique<ReplicatedLoad>(*this);
  }

  Score score(const Placement& p) override {
    Score score = constraints(problem_, p);
    if (!score.feasible()) return score;
    loads_.clear();
    for (const DeviceLoad& load : device_loads(problem_, p)) loads_.push_back(load.total());
    weights_.assign(loads_.size(), {});
    used_.assign(loads_.size(), 0);
    for (const OpId v : problem_.graph.ops()) {
      weights_[p.device[v]] += problem_.graph.op(v).persistent;
      used_[p.device[v]] = 1;
    }
    left_.clear();
    for (const DeviceId d : problem_.cluster.devices()) left_[sort_of(d)] += used_[d] == 0 ? 1 : 0;
    score.value = least_from(0, Duration{});
    return score;
  }

 private:
  using Sort = std::tuple<std::string, std::int64_t, double>;
  Sort sort_of(DeviceId d) const {
    const Device& device = problem_.cluster.device(d);
    return {device.kind, device.memory.count, device.speed};
  }
  Duration least_from(std::uint32_t i, Duration slowest) {
    if (i == loads_.size()) return slowest;
    const DeviceId d{i};
    if (used_[d] == 0) return least_from(i + 1, slowest);
    Duration best = Duration::max();
    int& left = left_[sort_of(d)];
    const bool core = problem_.cluster.device(d).is_core();
    for (int more = 0; more <= (core ? 0 : left); ++more) {
      const std::int64_t r = 1 + more;
      if (micro_batches_ > 0 && micro_batches_ % r != 0) continue;
      left -= more;
      const Duration load = replicated(loads_[d], weights_[d], r, micro_batches_, training_);
      best = std::min(best, least_from(i + 1, std::max(slowest, load)));
      left += more;
    }
    return best;
  }

  Problem problem_;
  std::int64_t micro_batches_;
  bool training_ = false;
  IdVector<DeviceId, Duration> loads_;
  IdVector<DeviceId, Bytes> weights_;
  IdVector<DeviceId, int> used_;
  std::map<Sort, int> left_;
};

/// Checks that the stages of `p` partition the devices, and that each has the time of its load.
void check_plan(const Problem& problem, const Placement& p, std::int64_t micro_batches) {
  const auto stages = exact::replicated_stages(problem, p);
  REQUIRE_FALSE(stages.empty());
  const auto loads = device_loads(problem, p);
  bool training = false;
  for (const OpId v : problem.graph.ops())
    training = training || problem.graph.op(v).phase != Phase::forward;
  IdVector<DeviceId, int> taken(problem.cluster.num_devices(), 0);
  double slowest = 0.0;
  for (const exact::ReplicatedStage& stage : stages) {
    for (const DeviceId d : stage.devices) CHECK(++taken[d] == 1);
    const auto r = static_cast<std::int64_t>(stage.devices.size());
    const Duration load = loads[stage.devices.front()].total();
    CHECK(stage.time_us ==
          doctest::Approx(to_us(replicated(load, stage.weights, r, micro_batches, training))));
    slowest = std::max(slowest, stage.time_us);
  }
  CHECK(p.facts.at("time_per_sample_us") == doctest::Approx(slowest));
}

/// Checks that the objective max_load of `p` equals the placer's fact, also after `p` was written
/// and read.
void check_objective(const Problem& problem, const Placement& p) {
  const auto max_load = make_objective("max_load", Options("max_load"));
  const Score score = max_load->score(problem, p);
  CHECK(score.feasible());
  CHECK(to_us(score.value) == p.facts.at("time_per_sample_us"));
  CHECK(to_us(score.value) == p.facts.at("max_load_us"));
  const std::string text = placement_json(p, problem.graph, "g", problem.cluster.num_devices());
  const Placement read =
      parse_placement(text, "p.json", problem.graph, problem.cluster.num_devices());
  CHECK(max_load->score(problem, read) == score);
}

}  // namespace

TEST_SUITE_BEGIN("replication");
TEST_CASE("two of three devices share the longer stage; training pays for its weights") {
  for (const bool training : {false, true}) {
    CAPTURE(training);
    const auto& [graph, cluster, costs, problem] = OwnedProblem(
        graph_of(training ? "a80,w6 -2> b40,w1000,c:b; b_grad0,b,c:b" : "a80,w6 -2> b40,w1000"),
        gpus(3, Bytes{2000}));
    // a: (80 + 2) / 2 = 41, and 4 x 6 / (2 x 2) = 6 for gradients; b: 40 + 2 = 42. All on three
    // devices: 120 / 3 = 40, and 4 x 2 x 1006 / (3 x 3) for gradients.
    const Placement p = replicating(0)->place(problem, 0);
    CHECK(p.facts.at("time_per_sample_us") == doctest::Approx(training ? 0.047 : 0.040));
    CHECK(p.facts.at("max_load_us") == doctest::Approx(training ? 0.047 : 0.040));
    const auto stages = exact::replicated_stages(problem, p);
    REQUIRE(stages.size() == (training ? 2U : 1U));
    CHECK(stages[0].devices.size() == (training ? 2U : 3U));
    // Three samples: three replicas take one each; two replicas do not divide three.
    const Placement three = replicating(3)->place(problem, 0);
    CHECK(three.facts.at("devices") == (training ? 2.0 : 3.0));
  }
}

TEST_CASE("exact_dp finds the best pipeline and numbers of replicas, on random problems") {
  std::size_t infeasible = 0, shared = 0;
  const std::uint64_t rounds = thorough() ? 4'000 : 400;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(5, seed % 2 == 1, 5000 + seed, 4);
    const Problem problem = small.problem();
    const std::int64_t micro_batches = std::array{0, 1, 6, 64}[seed / 2 % 4];
    const auto best = best_placement(problem, ReplicatedLoad(problem, micro_batches), is_pipeline);
    try {
      const Placement p = replicating(micro_batches)->place(problem, 0);
      REQUIRE(best);
      CHECK(p.facts.at("time_per_sample_us") == doctest::Approx(to_us(best->makespan)));
      CHECK(is_pipeline(problem, p));
      check_plan(problem, p, micro_batches);
      check_objective(problem, p);
      shared += p.facts.at("devices") > p.facts.at("stages") ? 1U : 0U;
    } catch (const InfeasibleError&) {
      CHECK_FALSE(best);
      ++infeasible;
    }
  }
  CHECK(infeasible > 0);
  CHECK(infeasible < rounds / 2);
  CHECK(shared > rounds / 5);
}

TEST_CASE("mip_max_load finds the best split and numbers of replicas, on random problems") {
  std::size_t shared = 0, below_pipelines = 0;
  const std::uint64_t rounds = thorough() ? 1'000 : 100;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(5, seed % 2 == 1, 9000 + seed, 4);
    const Problem problem = small.problem();
    const std::int64_t micro_batches = std::array{0, 1, 6, 64}[seed / 2 % 4];
    for (const bool contiguous : {false, true}) {
      CAPTURE(contiguous);
      const auto best = best_placement(problem, ReplicatedLoad(problem, micro_batches),
                                       contiguous ? is_convex : any_placement);
      try {
        const Placement p = replicating_split(micro_batches, contiguous)->place(problem, 0);
        REQUIRE(best);
        CHECK(p.facts.at("time_per_sample_us") == doctest::Approx(to_us(best->makespan)));
        // Loads are rounded up and exchanges rounded: a nanosecond each that the program ignores.
        CHECK(p.facts.at("bound_us") <= p.facts.at("time_per_sample_us"));
        CHECK(p.facts.at("bound_us") >= p.facts.at("time_per_sample_us") - 0.0021);
        if (contiguous) CHECK(is_convex(problem, p));
        check_plan(problem, p, micro_batches);
        check_objective(problem, p);
        shared += p.facts.at("devices") > p.facts.at("stages") ? 1U : 0U;
        const auto pipeline =
            best_placement(problem, ReplicatedLoad(problem, micro_batches), is_pipeline);
        below_pipelines += !pipeline || best->makespan < pipeline->makespan ? 1U : 0U;
      } catch (const InfeasibleError&) {
        CHECK_FALSE(best);
      }
    }
  }
  CHECK(shared > rounds / 5);
  CHECK(below_pipelines > 0);
}

TEST_CASE("a chain's contiguous parts are stages: mip_max_load finds exact_dp's time") {
  Random random(17);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    OpGraphBuilder b;
    std::optional<TensorId> passed;
    const std::uint32_t ops = 2 + random.below(6);
    for (std::uint32_t i = 0; i < ops; ++i) {
      const OpId v = b.add_op({.name = std::to_string(i),
                               .compute = Duration{1 + random.below(60)},
                               .persistent = Bytes{random.below(20)}});
      if (passed) b.add_edge(*passed, v);
      passed = b.add_tensor(v, Bytes{random.below(20)});
    }
    const Cluster some = gpus(2 + random.below(4), 60_B);
    const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(b).build(), some);
    try {
      const double time = replicating(0)->place(problem, 0).facts.at("time_per_sample_us");
      CHECK(replicating_split(0, true)->place(problem, 0).facts.at("time_per_sample_us") == time);
      CHECK(replicating_split(0, false)->place(problem, 0).facts.at("time_per_sample_us") <= time);
    } catch (const InfeasibleError&) {
      CHECK_THROWS_AS(replicating_split(0, true)->place(problem, 0), InfeasibleError);
    }
  }
}

TEST_CASE("the objective of replicas, derived by hand; objectives without replicas refuse them") {
  // a (80 ns, 6 B) -> b (40 ns), backward ops of no time; 2 B between them and 1 B/ns. The
  // first two of four devices share a, once in 6 samples: (80 + 2) / 2 and 4 x 6 x 1 / (2 x 6)
  // = 2.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a80,w6 -2> b40; b_grad0,b"), gpus(4, Bytes{2000}));
  const auto with = [](std::map<std::string, double> facts) {
    Placement placement{.facts = std::move(facts)};
    for (const std::uint32_t d : {0U, 2U, 2U}) placement.device.push_back(DeviceId{d});
    return placement;
  };
  const auto value = [&](const Placement& p, const char* name = "max_load") {
    return make_objective(name, Options(name))->score(problem, p).value;
  };
  const std::map<std::string, double> shared{{"stage_0_first", 0},
                                             {"stage_0_devices", 2},
                                             {"stage_1_first", 2},
                                             {"stage_1_devices", 1},
                                             {"micro_batches", 6}};
  CHECK(value(with({})) == Duration{82});
  CHECK(value(with(shared)) == Duration{43});
  CHECK(device_loads(problem, with(shared))[DeviceId{0}].total() == Duration{82});  // alone
  const auto mistake = [&](const char* name, double is) {
    auto facts = shared;
    facts[name] = is;
    return message<InputError>([&] { value(with(facts)); });
  };
  CHECK(mistake("micro_batches", 3) ==
        "the placement's replicas: 2 devices of stage 0 do not divide 3 micro-batches");
  CHECK(mistake("stage_0_devices", 3) == "the placement's replicas: 'gpu2' is in stages 0 and 1");
  CHECK(mistake("stage_1_devices", 3) ==
        "the placement's replicas: stage 1 has 3 devices from 'gpu2' on, and the cluster has 2 "
        "such");
  CHECK(mistake("stage_1_first", 3) ==
        "the placement's replicas: op 'b' is on 'gpu2', which is the first device of no stage");
  CHECK(mistake("stage_0_first", 0.5).ends_with("'stage_0_first' is none of 4 devices"));
  CHECK_REFUSED(value(with(shared), "latency"), "latency: replicated stages are not supported");
  CHECK_REFUSED(make_objective("max_load", Options("max_load", {{"phases", {"apart", "", {}}}}))
                    ->score(problem, with(shared)),
                "max_load: 'phases: apart' does not support replicated stages");
  CHECK_REFUSED(pipeline::unroll(problem, with(shared), {}),
                "no pipeline: stages must have one device each, and replicated ones have several");
}

TEST_CASE("replicas count loads of all phases together") {
  CHECK(message<InputError>([] {
          const Options o("mip_max_load",
                          {{"replicate", {"true", "", {}}}, {"phases", {"apart", "", {}}}});
          make_placer("mip_max_load", o);
        }).find("counts the load of all phases together") != std::string::npos);
}

TEST_CASE("replicas never make a pipeline slower; without them it equals exact_dp's") {
  const auto alone = make_placer("exact_dp");
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(9, seed % 2 == 1, 7000 + seed, 4);
    const Problem problem = small.problem();
    try {
      const double load = alone->place(problem, 0).facts.at("max_load_us");
      CHECK(replicating(0)->place(problem, 0).facts.at("time_per_sample_us") <= load);
      CHECK(replicating(1)->place(problem, 0).facts.at("time_per_sample_us") == load);
    } catch (const InfeasibleError&) {
      CHECK_THROWS_AS(replicating(0)->place(problem, 0), InfeasibleError);
    }
  }
}
