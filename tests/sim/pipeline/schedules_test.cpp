#include <doctest/doctest.h>

#include "sim/error.h"
#include "tests/sim/pipeline/small_pipelines.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::pipeline;

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

  TEST_CASE("zb_v: if all passes are alike, devices idle while the pipeline fills and no more") {
    for (const std::size_t p : {2U, 3U, 4U}) {
      CAPTURE(p);
      const Chain vee(2 * p, {10ns, 10ns, 10ns}, p,
                      [p](std::size_t c) { return c < p ? c : 2 * p - 1 - c; });
      const auto m = static_cast<std::int64_t>(3 * p);
      CHECK(vee.makespan("zb_v", 3 * p) == m * 60ns + static_cast<std::int64_t>(p - 1) * 10ns);
    }
    for (const std::size_t p : {3U, 5U, 6U, 7U}) {  // or two passes more
      const Chain vee(2 * p, {10ns, 10ns, 10ns}, p,
                      [p](std::size_t c) { return c < p ? c : 2 * p - 1 - c; });
      for (const std::size_t m : {2 * p, 2 * p + 1, 2 * p + 2}) {
        const auto alone = static_cast<std::int64_t>(6 * m + p - 1) * 10ns;
        CAPTURE(p);
        CAPTURE(m);
        CHECK(vee.makespan("zb_v", m) >= alone);
        CHECK(vee.makespan("zb_v", m) <= alone + 20ns);
      }
    }
    const Chain line(4, {10ns, 20ns, 0ns}, 4, [](std::size_t c) { return c; });
    CHECK(line.makespan("zb_v", 8) > 0ns);  // a line is half a V
    const Chain loop(8, {10ns, 20ns, 0ns}, 4, [](std::size_t c) { return c % 4; });
    CHECK_THROWS_AS(loop.makespan("zb_v", 8), InputError);
  }

  TEST_CASE("dualpipe: (p / 2 - 1)(F + B - W) of bubble, and two chunks' weights on each device") {
    const Chain line(4, {10ns, 10ns, 10ns}, 4, [](std::size_t c) { return c; });
    CHECK(line.makespan("dualpipe", 8) == 8 * 30ns + 10ns);
    const Uniform uniform(4, 0_B);
    const PipelineResult r = uniform.run("dualpipe", 8);
    CHECK(at_peak(r, MemoryKind::weights) == Sizes(4, 20));
  }
}
