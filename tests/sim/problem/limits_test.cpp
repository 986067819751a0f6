#include "sim/error.h"
#include "tests/prelude.h"

namespace {

/// a writes `size` bytes for each of `readers` ops; every op takes `compute`.
OpGraph star(Duration compute, Bytes size, std::uint32_t readers) {
  OpGraphBuilder b;
  const OpId a = b.add_op({.name = "a", .compute = compute});
  const TensorId t = b.add_tensor(a, size);
  for (std::uint32_t i = 0; i < readers; ++i)
    b.add_edge(t, b.add_op({.name = fmt::format("b{}", i), .compute = compute}));
  return std::move(b).build();
}

Cluster two(double speed, Bandwidth bandwidth, Duration latency = {}) {
  IdVector<DeviceId, Device> devices;
  devices.push_back({.name = "gpu0", .kind = {}, .memory = 1_GiB});
  devices.push_back({.name = "gpu1", .kind = {}, .memory = 1_GiB, .speed = speed});
  return Cluster::uniform(std::move(devices), {.bandwidth = bandwidth, .latency = latency});
}

std::string problem_error(const OpGraph& graph, const Cluster& cluster) {
  const ProfiledCosts costs(graph, cluster);
  return message<InputError>([&] { check_limits(graph, cluster, costs); });
}

}  // namespace

TEST_SUITE_BEGIN("limits");
TEST_CASE("sums and products stop at 2^62") {
  CHECK(saturated_sum(std::int64_t{1}, 2) == 3);
  CHECK(saturated_sum(count_limit - 1, 1) == count_limit);
  CHECK(saturated_sum(count_limit, std::numeric_limits<std::int64_t>::max()) == count_limit);
  CHECK(saturated_product(3, 4) == 12);
  CHECK(saturated_product(0, count_limit) == 0);
  CHECK(saturated_product(count_limit, 0) == 0);
  CHECK(saturated_product(count_limit / 2 + 1, 2) == count_limit);
  CHECK(saturated(2.9) == 2);
  CHECK(saturated(1e300) == count_limit);
  CHECK(saturated(std::numeric_limits<double>::quiet_NaN()) == count_limit);
  CHECK(Bytes{1000} / Bandwidth{1e-300} == Duration{count_limit});
}

// An op of 4e18 ns: twice as long is more than 2^62 = 4.61e18 ns, 1.1 times is not.
TEST_CASE("the engine's factors do not saturate") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a=4000000000000000000; met0,x:all_reduce/8/2"), two(1, {1e9}));
  CHECK_NOTHROW(check_factors(graph, cluster, costs, {.disturbed = 1.1}));
  CHECK_REFUSED(check_factors(graph, cluster, costs, {.disturbed = 2}),
                "engine.disturbed: 2: a step could take more than 146 years");
  CHECK_NOTHROW(check_factors(graph, cluster, costs, {.overlapped = 100}));
  CHECK_THROWS_AS(check_factors(graph, cluster, costs, {.overlapped = 1e18}), InputError);
  // 2^61 ns and a factor of 2 are 2^62, which is one too many.
  const auto exact = OwnedProblem(
      graph_of(fmt::format("half={}; meets0,x:all_reduce/8/2", count_limit / 2)), two(1, {1e9}));
  CHECK_THROWS_AS(check_factors(exact.problem.graph, exact.problem.cluster, exact.problem.costs,
                                {.disturbed = 2}),
                  InputError);
}

TEST_CASE("a slow link is rejected as soon as all transfers over it take 2^62 ns") {
  // One byte takes 1e9 ns / rate. Two readers of 1e9 B at 1 B/s: 2e18 ns, below 4.6e18. Five:
  // 5e18 ns.
  const Cluster cluster = two(1.0, {1.0});
  CHECK(problem_error(star(1us, {1'000'000'000}, 2), cluster) == "no error");
  CHECK(problem_error(star(1us, {1'000'000'000}, 5), cluster) ==
        "a step could take more than 146 years: link gpu0-gpu1, 1 B/s");
}

TEST_CASE("a collective needs a link, also if one device represents all ranks") {
  const OpGraph graph = graph_of("a0,x:all_reduce/100/2");
  CHECK(problem_error(graph, Cluster::uniform(1, 1_GiB, {.bandwidth = 1.0_GBps})) == "no error");
  CHECK(problem_error(graph, Cluster::uniform(1, 1_GiB, {})) ==
        "the cluster has no link (cluster.link) over which replicas could exchange anything: "
        "all_reduce of 'a', 100 B");
}

TEST_CASE("a long latency and a slow device are rejected, too") {
  // Three transfers of 100 years, 3.15e18 ns each.
  const Duration century = std::chrono::hours(24 * 365 * 100);
  CHECK(problem_error(star(1us, 1_B, 3), two(1.0, {1e9}, century)) ==
        "a step could take more than 146 years: link gpu0-gpu1, 1.00 GB/s");
  // Two ops of 1 s, 1e-10 of the speed: 1e19 ns each.
  CHECK(problem_error(star(1s, 1_B, 1), two(1e-10, {1e9})) ==
        "a step could take more than 146 years: op 'a', 4611686018.427 s at speed 1e-10 on gpu1");
  CHECK(problem_error(star(1s, 1_B, 1), two(1e-9, {1e9})) == "no error");
}

TEST_CASE("sizes are rejected as soon as all copies take 2^60 B") {
  // 2^58 B, and a copy for each of two readers: 3 * 2^58 B fit; with three readers 2^60 do not.
  const Bytes huge{std::int64_t{1} << 58U};
  CHECK(problem_error(star(1ns, huge, 2), two(1.0, {1e18})) == "no error");
  CHECK(problem_error(star(1ns, huge, 3), two(1.0, {1e18})) ==
        "a step could move or hold more than 1 EiB: an output of op 'a', 268435456.00 GiB, 3 "
        "readers");
  CHECK(problem_error(small_graph({{}, {.persistent = {std::int64_t{1} << 60U}}}), gpus(2)) ==
        "a step could move or hold more than 1 EiB: op 'b'");
}

TEST_CASE("if some op cannot run everywhere, none may take as long as cannot_run") {
  const OpGraph graph = graph_of("a0,@gpu72000000000000; c0,@gpu1000,@cpu1000");
  CHECK(problem_error(graph, of_kinds({"gpu", "cpu"})) ==
        "where some ops cannot run on some devices, an op must take less than 19 hours: op 'a', "
        "72000.000 s at speed 1 on gpu");
}

TEST_CASE("means over devices and links, and bounds, do not overflow below the limit") {
  // Two ops of 2^60 ns, and a transfer of as long, on 16 devices: the sums are 2^64 and 240 *
  // 2^60.
  const Duration part{std::int64_t{1} << 60U};
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(star(part, 1_B, 1),
                   Cluster::uniform(16, {count_limit}, {.bandwidth = {1e9}, .latency = part}));
  CHECK(mean_compute(problem)[OpId{0}] == part);
  CHECK(mean_transfer(problem)[TensorId{0}] == part + 1ns);
  CHECK(lower_bounds(graph, cluster, costs).fits_in_memory);
}
