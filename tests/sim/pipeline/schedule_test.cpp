#include <tuple>

#include "tests/prelude.h"
#include "tests/sim/pipeline/small_pipelines.h"

using namespace baechi::pipeline;

namespace {

/// "F0 F1 B0": the passes of a stage with their micro-batches.
std::string text_of(const std::vector<Pass>& passes) {
  std::string text;
  for (const Pass& p : passes) {
    text += text.empty() ? "" : " ";
    text += to_text(p)[0];
    text += std::to_string(p.micro_batch);
  }
  return text;
}

using Numbers = std::vector<std::size_t>;

Numbers in_flight(const char* name, const Shape& shape) {
  return most_in_flight(find_schedule(name)->make(shape));
}

}  // namespace

TEST_SUITE_BEGIN("pipelines");
TEST_CASE("every schedule of every shape can run, and keeps no more than in_flight") {
  std::size_t made = 0;
  for (const ScheduleEntry& entry : schedules()) {
    for (std::size_t stages = 1; stages <= 7; ++stages) {
      for (std::size_t laps = 1; laps <= 3; ++laps) {
        for (const std::size_t m : {1U, 2U, 3U, 4U, 5U, 6U, 9U, 10U, 12U, 14U, 21U}) {
          INFO(entry.name, " ", stages, " ", laps, " ", m);
          if (laps > 1 && entry.layout != Layout::loop) continue;
          std::optional<Schedule> schedule;
          try {
            schedule = entry.make({.stages = stages, .laps = laps, .micro_batches = m});
          } catch (const InputError&) {  // interleaved and dualpipe have conditions
            CHECK((entry.layout == Layout::loop || entry.layout == Layout::two_way));
            continue;
          }
          CHECK(mistake_in(*schedule, entry.layout, entry.training).value_or("none") == "none");
          if (entry.training) {
            const Schedule again = with_recompute(*schedule);
            CHECK(mistake_in(again, entry.layout, true).value_or("none") == "none");
          }
          ++made;
        }
      }
    }
  }
  CHECK(made > 400);
}

TEST_CASE("two stages and three micro-batches, written out") {
  const Shape shape{.stages = 2, .micro_batches = 3};
  const auto stage = [&](const char* name, std::size_t s) {
    return text_of(find_schedule(name)->make(shape).passes[s]);
  };
  CHECK(stage("inference", 0) == "F0 F1 F2");
  CHECK(stage("gpipe", 0) == "F0 F1 F2 B2 B1 B0 U0");
  CHECK(stage("1f1b", 0) == "F0 F1 B0 U0 F2 B1 U1 B2 U2");
  CHECK(stage("1f1b", 1) == "F0 B0 U0 F1 B1 U1 F2 B2 U2");
  CHECK(stage("1f1b_flush", 0) == "F0 F1 B0 F2 B1 B2 U2");
  CHECK(stage("2bw", 1) == "F0 B0 F1 B1 F2 B2 U2");
  CHECK(stage("zb_h1", 0) == "F0 F1 B0 W0 F2 B1 W1 B2 W2 U2");
  CHECK(stage("zb_h1", 1) == "F0 B0 F1 B1 W0 F2 B2 W1 W2 U2");
  CHECK(stage("zb_h2", 0) == "F0 F1 F2 B0 W0 B1 W1 B2 W2 U2");
  CHECK(stage("zb_h2", 1) == "F0 B0 F1 B1 F2 B2 W0 W1 W2 U2");
  const Schedule again = with_recompute(flushed_1f1b(shape));
  CHECK(text_of(again.passes[1]) == "F0 R0 B0 F1 R1 B1 F2 R2 B2 U2");
  CHECK(text_of(with_recompute(gpipe(shape), true).passes[0]) == "F0 F1 F2 B2 R1 B1 R0 B0 U0");
}

TEST_CASE("interleaved on two devices: two micro-batches through a chunk, then the next chunk") {
  // Stage 0 runs chunks 0 and 2. Warm-up: 2 (p - 1 - s) + (v - 1) p = 4.
  const Schedule s = interleaved({.stages = 2, .laps = 2, .micro_batches = 4});
  CHECK(s.passes[0][0] == Pass{PassKind::forward, 0, 0});
  CHECK(s.passes[0][1] == Pass{PassKind::forward, 0, 1});
  CHECK(s.passes[0][2] == Pass{PassKind::forward, 2, 0});
  CHECK(s.passes[0][3] == Pass{PassKind::forward, 2, 1});
  CHECK(s.passes[0][4] == Pass{PassKind::forward, 0, 2});
  CHECK(s.passes[0][5] == Pass{PassKind::backward, 2, 0});
}

TEST_CASE("interleaved groups have as many micro-batches as stages, or the least divisor") {
  // Two stages and three micro-batches: groups of two leave one, so all three go through a chunk.
  const Schedule s = interleaved({.stages = 2, .laps = 2, .micro_batches = 3});
  CHECK(s.passes[0][2] == Pass{PassKind::forward, 0, 2});
  CHECK(s.passes[0][3] == Pass{PassKind::forward, 2, 0});
  // Nine on four stages: groups of five and four. Stage 3 begins with (v - 1) 5 forward passes.
  const Schedule nine = interleaved({.stages = 4, .laps = 2, .micro_batches = 9});
  CHECK(nine.passes[3][4] == Pass{PassKind::forward, 3, 4});
  CHECK(nine.passes[3][5] == Pass{PassKind::forward, 7, 0});
  CHECK(nine.passes[3][6] == Pass{PassKind::backward, 7, 0});
  // min(m v, 2 (p - 1 - s) + (v - 1) g + 1), g = 5
  CHECK(in_flight("interleaved", {.stages = 4, .laps = 3, .micro_batches = 5}) ==
        Numbers{15, 15, 13, 11});
}

TEST_CASE("activations in flight, by the closed forms") {
  const Shape shape{.stages = 4, .micro_batches = 8};
  CHECK(in_flight("gpipe", shape) == Numbers(4, 8));                                   // m
  CHECK(in_flight("1f1b", shape) == Numbers{4, 3, 2, 1});                              // p - s
  CHECK(in_flight("1f1b", {.stages = 4, .micro_batches = 2}) == Numbers{2, 2, 2, 1});  // m
  CHECK(in_flight("zb_h1", shape) == Numbers(4, 4));                                   // p
  CHECK(in_flight("zb_h2", shape) == Numbers(4, 7));                                   // 2p - 1
  CHECK(in_flight("zb_v", shape) == Numbers(4, 8));      // 2p chunks of half a stage
  CHECK(in_flight("dualpipe", shape) == Numbers(4, 5));  // p + 1
  // 2 (p - 1 - s) + (v - 1) p + 1
  CHECK(in_flight("interleaved", {.stages = 4, .laps = 2, .micro_batches = 8}) ==
        Numbers{11, 9, 7, 5});
}

TEST_CASE("the checker finds what is missing, too many, misplaced, or waits for ever") {
  const Schedule good = flushed_1f1b({.stages = 2, .micro_batches = 2});
  const auto wrong = [&](auto change) {
    Schedule schedule = good;
    change(schedule);
    return mistake_in(schedule, Layout::line, true).value_or("none");
  };
  CHECK(wrong([](Schedule&) {}) == "none");
  CHECK(wrong([](Schedule& s) { s.passes[1].erase(s.passes[1].begin()); }) ==
        "F 1 of micro-batch 0 is missing");
  CHECK(wrong([](Schedule& s) { s.passes[1].push_back(s.passes[1].front()); }) ==
        "F 1 of micro-batch 0 runs twice");
  CHECK(wrong([](Schedule& s) { s.passes[0].push_back(pass(PassKind::weights, 1, 0)); }) ==
        "stage 0 runs W 1 of micro-batch 0");
  CHECK(wrong([](Schedule& s) { s.passes[0].push_back(pass(PassKind::weights, 0, 0)); }) ==
        "W 0 of micro-batch 1 is missing");
  CHECK(wrong([](Schedule& s) { s.passes[0][0].micro_batch = 7; }) ==
        "F 0 of micro-batch 7 does not exist");
  CHECK(wrong([](Schedule& s) { std::swap(s.passes[0][0], s.passes[0][2]); }) ==
        "stage 0 waits for ever with B 0 of micro-batch 0");
  CHECK(wrong([](Schedule& s) { s.in_flight[0] = 1; }) == "stage 0 keeps 2 activations, not 1");
  CHECK(mistake_in(good, Layout::line, false) == "B 0 of micro-batch 0 is too many");
}

TEST_CASE("a schedule that does not exist for a shape says what it needs") {
  CHECK_REFUSED(interleaved({.stages = 4, .laps = 2, .micro_batches = 3}),
                "interleaved needs a micro-batch for each of its 4 stages, not 3");
  CHECK_THROWS_AS(interleaved({.stages = 4, .laps = 1, .micro_batches = 8}), InputError);
  CHECK_THROWS_AS(dualpipe({.stages = 3, .micro_batches = 8}), InputError);
  CHECK_THROWS_AS(dualpipe({.stages = 4, .micro_batches = 6}), InputError);
  CHECK(find_schedule("gpip") == nullptr);
}

namespace {

/// Two chunks on each of p devices, the second ones in falling order.
Chain forward_backward_chain(std::size_t p, Chain::Times times) {
  return Chain(2 * p, times, p, [p](std::size_t c) { return c < p ? c : 2 * p - 1 - c; });
}

}  // namespace

TEST_SUITE_BEGIN("pipelines");
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
        INFO(p, " ", m);
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
