#include "placers/adjust.h"

#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

std::string devices_text(const std::vector<DeviceId>& devices) {
  std::string all;
  for (const DeviceId d : devices) all += fmt::format("{}{}", all.empty() ? "" : " ", index(d));
  return all;
}

/// Ops of these persistent bytes, 1 ns each, in one group except the first `lone` ops.
OpGraph members(std::initializer_list<Bytes> persistent, std::size_t lone = 0) {
  OpGraphBuilder g;
  std::size_t i = 0;
  for (const Bytes b : persistent) {
    const OpId v = g.add_op({.name = fmt::format("op{}", i), .compute = 1ns, .persistent = b});
    if (i++ >= lone) g.colocate(v, "g");
  }
  return std::move(g).build();
}

std::string adjusted(const OpGraph& graph, const Cluster& cluster, const Placement& placement,
                     AdjustPolicy policy) {
  const ProfiledCosts costs(graph, cluster);
  const Placement p = adjust({graph, cluster, costs}, placement, policy);
  return devices_text({p.device.begin(), p.device.end()});
}

}  // namespace

TEST_SUITE_BEGIN("adjusters");
TEST_CASE("each policy prefers the devices of the members in its own order") {
  // Device 2: 5 B, 1 ns and 3 B, 3 ns. Device 0: 7 B, 2 ns. Device 1: 5 B, 9 ns.
  const std::vector<AdjustMember> group{
      {gpu2, 5_B, 1ns}, {gpu0, 7_B, 2ns}, {gpu1, 5_B, 9ns}, {gpu2, 3_B, 3ns}};
  const auto order = [&](AdjustPolicy policy) {
    return devices_text(preferred_devices(policy, group));
  };
  CHECK(order(AdjustPolicy::random) == "2 0 1");
  CHECK(order(AdjustPolicy::memory) == "0 2 1");      // 7, 5 (first of two), 5
  CHECK(order(AdjustPolicy::time) == "1 2 0");        // 9, 3, 2
  CHECK(order(AdjustPolicy::frequent) == "2 0 1");    // 2, then 1 and 1 by number
  CHECK(order(AdjustPolicy::memory_sum) == "2 0 1");  // 8, 7, 5
  CHECK(order(AdjustPolicy::time_sum) == "1 2 0");    // 9, 4, 2
}

TEST_CASE("ties go to the first member, with equal counts to the lower device") {
  const std::vector<AdjustMember> group{
      {gpu1, 1_B, 1ns}, {gpu0, 4_B, 4ns}, {gpu1, 4_B, 4ns}, {gpu0, 1_B, 1ns}};
  CHECK(devices_text(preferred_devices(AdjustPolicy::memory, group)) == "0 1");
  CHECK(devices_text(preferred_devices(AdjustPolicy::memory_sum, group)) == "1 0");
  CHECK(devices_text(preferred_devices(AdjustPolicy::frequent, group)) == "0 1");
}

TEST_CASE("a full device is skipped: all it holds counts, not only what moves") {
  // The lone op0 fills device 0 with 60 of 100 B. op1 (50 B) belongs there by memory, but op2 (40
  // B) does not fit with it; device 1 holds 40 and has 50 free.
  const OpGraph graph = members({10_B, 50_B, 40_B}, 1);
  const Placement p = on({gpu0, gpu0, gpu1});
  CHECK(adjusted(graph, gpus(2, 100_B), p, AdjustPolicy::memory) == "0 0 0");
  CHECK(adjusted(graph, gpus(2, 99_B), p, AdjustPolicy::memory) == "0 1 1");
  CHECK(adjusted(graph, gpus(2, 99_B), p, AdjustPolicy::none) == "0 0 1");
}

TEST_CASE("a group that fits on no device of its members goes where most is free, or fails") {
  // The group takes 90 B. Devices 0 and 1 hold 20 B of lone ops, device 2 holds 5, device 3 0.
  const OpGraph graph = graph_of("a0,w20; b0,w20; c0,w5; d0,w45,c:g; e0,w45,c:g");
  const Placement p = on({gpu0, gpu1, gpu2, gpu0, gpu1});
  CHECK(adjusted(graph, gpus(4, 100_B), p, AdjustPolicy::frequent) == "0 1 2 3 3");
  CHECK(adjusted(graph, gpus(3, 100_B), p, AdjustPolicy::frequent) == "0 1 2 2 2");
  CHECK_THROWS_AS(adjusted(graph, gpus(3, 94_B), p, AdjustPolicy::frequent), InfeasibleError);
}

TEST_CASE("workspace is shared by the ops of a device, one running at a time") {
  CHECK(adjusted(graph_of("a0,w10,t80,c:g; b0,w10,t80,c:g"), gpus(2, 100_B), on({gpu1, gpu0}),
                 AdjustPolicy::random) == "1 1");
}

TEST_CASE("the option adjust: groups are ignored while placing, then brought together") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(members({1_B, 1_B, 1_B, 1_B}), gpus(2));
  const auto place = [&](const char* policy) {
    Options options("round_robin", {{"adjust", {.text = policy, .where = {}, .children = {}}}});
    const Placement p = make_placer("round_robin", std::move(options))->place(problem, 0);
    return devices_text({p.device.begin(), p.device.end()});
  };
  CHECK(place("while_placing") == "0 0 0 0");  // one group, assigned once
  CHECK(place("none") == "0 1 0 1");
  CHECK(place("frequent") == "0 0 0 0");
  CHECK_REFUSED(place("memry"),
                "round_robin.adjust: 'memry' is not one of while_placing, none, random, memory, "
                "time, frequent, memory_sum, time_sum (did you mean 'memory'?)");
}

TEST_CASE("every placer and policy: groups end whole, also with compat") {
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    const RandomProblem problem({.ops = 40}, 3, seed);
    const bool uniform = problem.cluster.device(gpu0).speed == problem.cluster.device(gpu1).speed;
    for (const char* name : {"random", "m_topo", "m_etf", "m_sct", "heft"}) {
      for (const char* policy :
           {"random", "memory", "time", "frequent", "memory_sum", "time_sum"}) {
        for (const char* compat : {"false", "true"}) {
          const bool knows = std::string_view(name).starts_with("m_");
          if (*compat == 't' && (!knows || !uniform)) continue;
          Options options(name, {{"adjust", {.text = policy, .where = {}, .children = {}}}});
          if (knows) options.set("compat", {.text = compat, .where = {}, .children = {}});
          if (knows) options.set("colocation", {.text = "false", .where = {}, .children = {}});
          INFO(name, " ", policy);
          Placement p;
          try {
            p = make_placer(name, std::move(options))->place(problem.under({}), seed);
          } catch (const InputError&) {  // links differ
            continue;
          }
          for (const GroupId g : problem.graph.groups()) {
            for (const OpId v : problem.graph.members(g))
              CHECK(p.device[v] == p.device[problem.graph.members(g).front()]);
          }
        }
      }
    }
  }
}
