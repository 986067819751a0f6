#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

std::unique_ptr<Placer> refine(const std::string& evaluations) {
  return make_placer("refine", Options("refine", {{"evaluations", {evaluations, {}, {}}}}));
}

}  // namespace

TEST_SUITE("placers") {
  TEST_CASE("refine is never slower than auto, and without evaluations it is auto") {
    const auto quick = make_placer("auto");
    std::size_t better = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 40}, 3, seed);
      const Problem problem = random.under({});
      const Placement first = quick->place(problem, seed);
      CHECK(refine("0")->place(problem, seed).device == first.device);
      const Placement refined = make_placer("refine")->place(problem, seed);
      const Duration before = simulate(problem, first).makespan;
      const Duration after = simulate(problem, refined).makespan;
      CHECK(after <= before);
      CHECK(refined.facts.at("quick_us") == to_us(before));
      better += after < before ? 1U : 0U;
    }
    CHECK(better >= 3);
  }

  // 50,000 ops are simulated in total, but at least 16 and at most 1,024 steps. On three devices
  // no step is as short as the bound: times are multiples of 10 ns, a third of their sum is not.
  TEST_CASE("refine takes fewer evaluations on graphs of many ops") {
    for (const auto& [ops, evaluations] :
         {std::pair(40, 1'024), {100, 500}, {1'000, 50}, {30'001, 16}}) {
      OpGraphBuilder b;
      for (int i = 0; i < ops; ++i)
        b.add_op({.name = std::to_string(i), .compute = Duration{10 * (i + 1)}});
      const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(b).build(), gpus(3));
      const Placement p = make_placer("refine")->place(problem, 1);
      CHECK(p.facts.at("evaluations") == evaluations);
    }
  }
}
