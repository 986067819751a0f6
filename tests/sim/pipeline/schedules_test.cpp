#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

#include "sim/error.h"
#include "tests/sim/pipeline/small_pipelines.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::pipeline;

namespace {

/// Two chunks on each of p devices, the second ones in falling order.
Chain forward_backward_chain(std::size_t p, Chain::Times times) {
  return Chain(2 * p, times, p, [p](std::size_t c) { return c < p ? c : 2 * p - 1 - c; });
}

}  // namespace

TEST_SUITE("pipelines") {
  TEST_CASE("interleaved: with v chunks on each device the bubble is 1 / v of (p - 1)(F + B)") {
    // F and B of a device: 2 x 10 and 2 x 20; (4 - 1) x 60 / 2 = 90 of bubble.
    const Chain loop(8, {10ns, 20ns, 0ns}, 4, [](std::size_t c) { return c % 4; });
    CHECK(loop.makespan("interleaved", 8) == 8 * 60ns + 90ns);
    const Chain thrice(9, {10ns, 20ns, 0ns}, 3, [](std::size_t c) { return c % 3; });
    CHECK(thrice.makespan("interleaved", 6) == 6 * 90ns + 60ns);  // (3 - 1) x 90 / 3
    const Chain line(4, {10ns, 20ns, 0ns}, 4, [](std::size_t c) { return c; });
    CHECK_THROWS_AS(line.makespan("interleaved", 8), InputError);
    CHECK(line.makespan("1f1b_flush", 8) == (8 + 4 - 1) * 30ns);
  }

  TEST_CASE("zb_h1: (p - 1)(F + B - W) of bubble; zb_h2: only filling and (p - 1)(F + B - 2W)") {
    const auto place = [](std::size_t c) { return c; };
    const Chain alike(4, {10ns, 10ns, 10ns}, 4, place);
    // 1f1b_flush: w is of the same pass, but the gradient leaves when b ends: (p - 1)(F + b).
    CHECK(alike.makespan("1f1b_flush", 8) == 8 * 30ns + 3 * 20ns);
    CHECK(alike.makespan("zb_h1", 8) == 8 * 30ns + 3 * 10ns);
    // The last stage begins after 3 x 10 and never waits.
    CHECK(alike.makespan("zb_h2", 8) == 8 * 30ns + 3 * 10ns);
    const Chain unlike(4, {10ns, 12ns, 6ns}, 4, place);
    CHECK(unlike.makespan("1f1b_flush", 8) == 8 * 28ns + 3 * 22ns);
    CHECK(unlike.makespan("zb_h1", 8) == 8 * 28ns + 3 * (10 + 12 - 6) * 1ns);
  }

  TEST_CASE("zb_v: with equal passes, devices idle only while the pipeline fills") {
    for (const std::size_t p : {2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
      CAPTURE(p);
      const Chain vee = forward_backward_chain(p, {10ns, 10ns, 10ns});
      for (const std::size_t m : {2 * p, 3 * p, 3 * p + 1})
        CHECK(vee.makespan("zb_v", m) == static_cast<std::int64_t>(6 * m + p - 1) * 10ns);
    }
    const Chain line(4, {10ns, 20ns, 0ns}, 4, [](std::size_t c) { return c; });
    CHECK(line.makespan("zb_v", 8) > 0ns);  // a line is half a V
    const Chain loop(8, {10ns, 20ns, 0ns}, 4, [](std::size_t c) { return c % 4; });
    CHECK_THROWS_AS(loop.makespan("zb_v", 8), InputError);
  }

  TEST_CASE("zb_v: passes of any length idle less than in zb_h1, however many micro-batches") {
    // A chunk is half a stage. Each device works m x 2 (F + B + W). Idle: zb_h1 (p - 1) x 2 (F + B
    // - W), or F if W is longer than B; 1f1b_flush (p - 1) x 2 (F + B). It is the same whatever m
    // is: so the bubble shrinks with m.
    for (const auto& [f, b, w] : {std::tuple(10ns, 11ns, 9ns), std::tuple(10ns, 12ns, 8ns),
                                  std::tuple(20ns, 25ns, 15ns), std::tuple(10ns, 8ns, 12ns)}) {
      for (const std::size_t p : {2U, 4U, 8U}) {
        const Chain vee = forward_backward_chain(p, {f, b, w});
        const Chain line(p, {2 * f, 2 * b, 2 * w}, p, [](std::size_t c) { return c; });
        const auto stages = static_cast<std::int64_t>(p);
        for (const std::size_t m : {2 * p, 8 * p}) {
          CAPTURE(p);
          CAPTURE(m);
          const Duration work = static_cast<std::int64_t>(m) * 2 * (f + b + w);
          const Duration zb_h1 = (stages - 1) * 2 * (f + std::max(b - w, 0ns));
          CHECK(line.makespan("1f1b_flush", m) - work == (stages - 1) * 2 * (f + b));
          CHECK(line.makespan("zb_h1", m) - work == zb_h1);
          CHECK(vee.makespan("zb_v", m) - work >= (stages - 1) * f);
          CHECK(vee.makespan("zb_v", m) - work < zb_h1);
        }
      }
    }
  }

  TEST_CASE("zb_v: no more memory than 1f1b's first stage, and an order by the passes' lengths") {
    // A chunk is half a stage: 2p of them are what 1f1b keeps of p micro-batches.
    for (const std::int64_t b : {5, 10, 20}) {
      const PassTimes times{10ns, Duration{b}, 10ns};
      const Schedule schedule = find_schedule("zb_v")->make(
          {.stages = 4, .micro_batches = 32, .times = std::vector<PassTimes>(8, times)});
      for (const std::size_t kept : most_in_flight(schedule)) CHECK(kept <= 8);
    }
  }

  TEST_CASE("dualpipe: (p / 2 - 1)(F + B - W) of bubble, and two chunks' weights on each device") {
    const Chain line(4, {10ns, 10ns, 10ns}, 4, [](std::size_t c) { return c; });
    CHECK(line.makespan("dualpipe", 8) == 8 * 30ns + 10ns);
    const Uniform uniform(4, 0_B);
    const PipelineResult r = uniform.run("dualpipe", 8);
    CHECK(at_peak(r, MemoryKind::weights) == Sizes(4, 20));
  }
}
