#include "scenarios/arena/duel.h"

#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/small_graphs.h"

namespace {

std::unique_ptr<Placer> placer(const std::string& name) { return make_placer(name, Options(name)); }

}  // namespace

TEST_SUITE("arena") {
  TEST_CASE("duel steps are those of the engine; failures count if the option says so") {
    // Two ops of 1 us without edges: single takes 2 us, m_etf 1 us.
    DuelInstance instance{.ops = {{.compute = 1us}, {.compute = 1us}},
                          .speed = {1.0, 1.0},
                          .memory = 100_B,
                          .link = {.bandwidth = 1.0_GBps, .latency = 0ns}};
    const auto single = placer("single"), etf = placer("m_etf");
    const DuelSteps steps = duel_steps(instance, *single, *etf);
    CHECK(steps.loser == Duration(2us));
    CHECK(steps.winner == Duration(1us));
    CHECK(steps.ratio(false) == doctest::Approx(2.0));
    // Each op now has 60 B of weights: one device is too small for both.
    instance.ops[0].persistent = instance.ops[1].persistent = 60_B;
    const DuelSteps tight = duel_steps(instance, *single, *etf);
    CHECK_FALSE(tight.loser);
    CHECK(tight.ratio(false) == 0.0);
    CHECK(tight.ratio(true) == 10.0);
  }

  TEST_CASE("single loses to m_etf by about the number of devices, with few ops") {
    const auto single = placer("single"), etf = placer("m_etf");
    const DuelResult result = duel(*single, *etf, {.evaluations = 400, .seed = 3});
    CHECK(result.found_ratio > 2.0);
    CHECK(result.small_ratio >= 1.0 + 0.99 * (result.found_ratio - 1.0));
    CHECK(result.small.ops.size() <= result.found.ops.size());
    CHECK(duel_steps(result.small, *single, *etf).ratio(false) == result.small_ratio);
    const DuelResult again = duel(*single, *etf, {.evaluations = 400, .seed = 3});
    CHECK(again.small_ratio == result.small_ratio);
    CHECK(again.evaluations == result.evaluations);
  }
}
