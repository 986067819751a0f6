#include "validate/calibrate.h"

#include "sim/error.h"
#include "tests/prelude.h"
#include "tests/validate/virtual_clock.h"
#include "validate/statistics.h"

using namespace baechi::validate;

namespace {

/// Whether the estimate's interval, widened by `slack`, holds the truth.
bool holds(const Estimate& estimate, double truth, double slack) {
  return estimate.low - slack <= truth && truth <= estimate.high + slack;
}

Calibration calibrated(const Calibration& truth, Unknowns unknowns, std::uint64_t seed,
                       int rounds = 30) {
  VirtualClock clock(truth, unknowns, seed);
  return calibrate(clock.machine(), run_benchmarks(clock, rounds), "measurements.csv");
}

}  // namespace

TEST_SUITE_BEGIN("validate");
TEST_CASE("quantiles, trimmed means and ranks by hand") {
  CHECK(quantile({4, 1, 3, 2}, 0.5) == 2.5);
  CHECK(quantile({1, 2, 3}, 0.25) == 1.5);
  CHECK(trimmed_mean({1000, 1, 2, 3, 4, 5, 6, 7, 8, -1000}) == 4.5);  // both thousands are cut
  CHECK(spearman(Samples{1, 2, 3}, Samples{10, 20, 30}) == doctest::Approx(1.0));
  // Ranks 1 2 3 4 and 2 1 3 4: differences 1, 1; 1 - 6 * 2 / (4 * 15) = 0.8.
  CHECK(spearman(Samples{1, 2, 3, 4}, Samples{5, 1, 6, 7}) == doctest::Approx(0.8));
  CHECK(std::isnan(spearman(Samples{1, 1}, Samples{1, 2})));
}

TEST_CASE("a line is fitted to relative residuals, whatever one outlier says") {
  Samples x, y;
  for (double bytes = 64; bytes <= 1e8; bytes *= 4) {
    x.push_back(bytes);
    y.push_back(1000 + 0.5 * bytes);
  }
  y[4] *= 3;
  const Line line = relative_line(x, y);
  CHECK(line.fixed == doctest::Approx(1000).epsilon(0.01));
  CHECK(line.slope == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("calibration recovers what the virtual clock does, within its intervals") {
  const Calibration truth = virtual_truth(4);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    const Calibration found = calibrated(truth, {.noise = 0.01, .jitter_ns = 40}, seed);
    CHECK(found.partitions == truth.partitions);
    REQUIRE(found.modes.size() == 2);
    // Stamps are cut to 32 ns: what is a multiple of neither has that much to spare.
    const double tick = truth.timer_tick_ns;
    for (const auto& mode : truth.modes) {
      const auto* ours = found.find_mode(mode.mode);
      REQUIRE(ours != nullptr);
      CHECK(holds(ours->same_ns, mode.same_ns.value, tick));
      CHECK(holds(ours->cross_ns, mode.cross_ns.value, tick));
      CHECK(holds(ours->submit_ns, mode.submit_ns.value, 1));
    }
    REQUIRE(found.transfers.size() == truth.transfers.size());
    for (const auto& t : truth.transfers) {
      INFO(t.way, " ", t.direction, " ", t.mode);
      const auto* ours = found.find_transfer(t.mode, t.way, t.direction);
      REQUIRE(ours != nullptr);
      CHECK(holds(ours->latency_ns, t.latency_ns.value, 2 * tick));
      CHECK(
          holds(ours->occupancy_ns, t.occupancy_ns.value, 0.05 * t.occupancy_ns.value + 4 * tick));
      CHECK(ours->time.table.empty());
      CHECK(holds(ours->time.ns_per_unit, t.time.ns_per_unit.value,
                  0.002 * t.time.ns_per_unit.value));
      CHECK(ours->shared == t.shared);
      CHECK(ours->contention == doctest::Approx(t.contention).epsilon(0.03));
    }
    for (const auto& op : truth.ops) {
      CAPTURE(op.kind);
      const auto* ours = found.find_op(op.kind);
      REQUIRE(ours != nullptr);
      CHECK(ours->time.table.empty());
      CHECK(ours->left_out_error < 0.03);
      CHECK(holds(ours->time.fixed_ns, op.time.fixed_ns.value, 2 * tick));
      CHECK(holds(ours->time.ns_per_unit, op.time.ns_per_unit.value,
                  0.002 * op.time.ns_per_unit.value));
    }
    REQUIRE(found.interference.size() == truth.interference.size());
    for (std::size_t i = 0; i < truth.interference.size(); ++i) {
      for (const auto& ours : found.interference) {
        if (ours.op != truth.interference[i].op ||
            ours.neighbour != truth.interference[i].neighbour)
          continue;
        CAPTURE(ours.op + " " + ours.neighbour);
        CHECK(holds(ours.per_neighbour, truth.interference[i].per_neighbour.value, 0.001));
      }
    }
  }
}

TEST_CASE("without noise and with a fine timer calibration is exact") {
  Calibration truth = virtual_truth(3);
  truth.timer_tick_ns = 1;
  const Calibration found = calibrated(truth, {}, 1, 3);
  CHECK(found.find_mode("graph")->same_ns == Estimate{1180, 1180, 1180});
  CHECK(found.find_mode("stream")->cross_ns == Estimate{3100, 3100, 3100});
  const auto* link = found.find_transfer("graph", "link", "");
  CHECK(link->latency_ns.value == 3300);
  CHECK(link->occupancy_ns.value == doctest::Approx(1180).epsilon(1e-3));
  CHECK(found.find_transfer("graph", "host", "d2h")->contention ==
        doctest::Approx(3.0).epsilon(0.1));
  CHECK(found.find_op("gemm")->time(2e9) == doctest::Approx(5200 + 2e9 / 95'000).epsilon(1e-3));
}

TEST_CASE("gaps behind real ops, and of ops that wait for two queues, are those of the truth") {
  Calibration truth = virtual_truth(3);
  truth.timer_tick_ns = 1;
  truth.modes[0].fan_in_ns = {2150, 2150, 2150};
  truth.modes[0].after = {{"ew", {1380, 1380, 1380}}, {"gemm", {1500, 1500, 1500}}};
  const Calibration found = calibrated(truth, {}, 1, 3);
  const auto* graph = found.find_mode("graph");
  CHECK(graph->same_ns == Estimate{1180, 1180, 1180});
  CHECK(graph->fan_in_ns == Estimate{2150, 2150, 2150});
  CHECK(graph->after == truth.modes[0].after);
  CHECK(found.find_mode("stream")->fan_in_ns == Estimate{3100, 3100, 3100});  // as cross
}

TEST_CASE("the memory's capacity and what ops want of it are found, and saturation is foretold") {
  Calibration truth = virtual_truth(4);
  truth.interference.clear();
  // Two passes of 760 bytes per ns fill 1200 1.27 times, three 1.9 times, four 2.53 times.
  truth.bandwidth = {1200.0, {{"ew", 760.0, 1.0}, {"gemm", 300.0, 0.4}}};
  const Calibration found = calibrated(truth, {.noise = 0.005, .jitter_ns = 20}, 1);
  CHECK(found.bandwidth.capacity == doctest::Approx(1200).epsilon(0.02));
  REQUIRE(found.bandwidth.demands.size() == 2);
  CHECK(found.bandwidth.demands[0].kind == "ew");
  CHECK(found.bandwidth.demands[0].bytes_per_ns ==
        doctest::Approx((64 << 20) / (2800 + (64 << 20) / 760.0)).epsilon(0.01));
  CHECK(found.bandwidth.demands[0].sensitivity == doctest::Approx(1).epsilon(0.05));
  CHECK(found.bandwidth.demands[1].bytes_per_ns == doctest::Approx(300).epsilon(0.1));
  CHECK(found.bandwidth.demands[1].sensitivity == doctest::Approx(0.4).epsilon(0.1));
  // A number per pair fits better where neighbours add up, and where one number was measured.
  CHECK(calibrated(virtual_truth(4), {}, 1, 3).bandwidth.capacity == 0.0);
  truth.partitions.resize(2);
  CHECK(calibrated(truth, {}, 1, 3).bandwidth.capacity == 0.0);
}

TEST_CASE("where no line fits, a table is kept, and what was left out of it is told") {
  std::vector<Measurement> rows{{.what = "gap_same", .mode = "graph", .count = 2, .value = 1000}};
  // 1 ns per byte up to 1 MB, then 4: as when a cache is full.
  for (double bytes = 1 << 14; bytes <= 1 << 26; bytes *= 4)
    rows.push_back({.what = "op",
                    .mode = "graph",
                    .subject = "ew",
                    .args = fmt::format("{:.0f}", bytes),
                    .count = 1,
                    .value = bytes <= 1e6 ? bytes : 4 * bytes});
  const Calibration found = calibrate({.partitions = {{1, 1}}}, rows, "m.csv");
  const auto* ew = found.find_op("ew");
  REQUIRE(ew != nullptr);
  CHECK(ew->time.table.size() == 7);
  CHECK(ew->time(65'536) == doctest::Approx(65'536));
  CHECK(ew->time(1 << 26) == doctest::Approx(4.0 * (1 << 26)));
  CHECK(ew->time(1 << 28) == doctest::Approx(4.0 * (1 << 28)));  // above: in proportion
  CHECK(ew->left_out_error > 0.3);
}

TEST_CASE("fits that no machine can have are told from those that it can") {
  const Calibration good = virtual_truth(2);
  for (const Fit& fit : fits_of(good)) {
    CAPTURE(fit.what);
    CHECK(fit.wrong.empty());
  }
  Calibration bad = good;
  bad.transfers[0].occupancy_ns = {-7000, -7100, -6900};
  bad.ops[0].time.table = {{1024, 1}, {2048, 500}};
  bad.ops[1].left_out_error = 0.34;
  bad.modes[0].same_ns = {-10, -90, 70};  // 0 is within its interval
  std::vector<std::string> wrong;
  for (const Fit& fit : fits_of(bad))
    if (!fit.wrong.empty()) wrong.push_back(fit.what);
  const auto& t = good.transfers[0];
  CHECK(wrong == std::vector<std::string>{fmt::format("{} {}{}{}: occupancy", t.mode, t.way,
                                                      t.direction.empty() ? "" : " ", t.direction),
                                          good.ops[0].kind, good.ops[1].kind});
}

TEST_CASE("measurements that make no sense are refused by line") {
  const Machine machine{.partitions = {{1, 1}}};
  std::vector<Measurement> rows{
      {.what = "gap", .mode = "graph", .value = 1},
      {.what = "copy", .mode = "graph", .way = "link", .args = "64", .count = 1, .value = 5},
      {.what = "op", .mode = "graph", .subject = "cublas", .args = "1 2", .value = 5}};
  CHECK_REFUSED(calibrate(machine, rows, "m.csv"),
                "m.csv:2:1: 'gap' is no measurement (those: canary, contention, copy, gap_cross, "
                "gap_fan_in, gap_same, granule, interference, op, order, submit)\n"
                "m.csv:3:1: it needs 'BYTES NS' and a count\n"
                "m.csv:4:1: '1 2' are no arguments of 'cublas'\n"
                "m.csv: no line says 'gap_same'");
}
