/// Small random problems for the exact planners.
#pragma once

#include "sim/problem/problem.h"
#include "sim/random.h"

namespace baechi::testing {

/// A small problem with all features that the exact planners use: groups, phases, ops that run on
/// one device type only, work and transfers of no time, tight memory, several classes of devices.
class SmallProblem {
 public:
  SmallProblem(std::uint32_t most_ops, bool training, std::uint64_t seed,
               std::uint32_t most_accelerators = 3)
      : random_(seed),
        graph(make_graph(1 + random_.below(most_ops), training)),
        cluster(make_cluster(most_accelerators)),
        costs(graph, cluster) {}
  SmallProblem(const SmallProblem&) = delete;
  SmallProblem& operator=(const SmallProblem&) = delete;

  Problem problem() const { return {graph, cluster, costs}; }

 private:
  OpGraph make_graph(std::uint32_t ops, bool training) {
    OpGraphBuilder b;
    const std::uint32_t longest = random_.below(2) == 0 ? 4 : 60;  // few values: ties
    const std::uint32_t degree = 1 + random_.below(3);
    const bool grouped = random_.below(2) == 0;
    const std::uint32_t forward = training ? (ops + 1) / 2 : ops;
    std::vector<TensorId> outputs;
    for (std::uint32_t i = 0; i < ops; ++i) {
      const auto some = [&](std::uint32_t most) {
        return random_.below(4) == 0 ? 0 : random_.below(most);
      };
      const OpId v = b.add_op({.name = "op" + std::to_string(i),
                               .persistent = Bytes{some(20)},
                               .phase = i < forward ? Phase::forward : Phase::backward});
      const std::uint32_t only = random_.below(12);  // 0: on accelerators, 1: on cores
      const Duration time{some(longest)};
      b.set_compute(v, "acc", only == 1 ? std::nullopt : std::optional(time));
      b.set_compute(v, "cpu",
                    only == 0 ? std::nullopt : std::optional(Duration{some(4 * longest)}));
      for (std::uint32_t k = random_.below(degree + 1); i > 0 && k > 0; --k)
        b.add_edge(outputs[random_.below(i)], v);
      outputs.push_back(b.add_tensor(v, Bytes{some(longest)}));
      if (grouped && random_.below(2) == 0) b.colocate(v, "g" + std::to_string(random_.below(3)));
    }
    return std::move(b).build();
  }

  Cluster make_cluster(std::uint32_t most_accelerators) {
    const std::uint32_t accelerators = 1 + random_.below(most_accelerators);
    const Bytes memory{random_.below(3) == 0 ? 1000 : 10 + random_.below(60)};
    const bool equal = random_.below(4) > 0;
    IdVector<DeviceId, Device> all;
    for (std::uint32_t i = 0; i < accelerators; ++i)
      all.push_back({.name = "acc",
                     .kind = "acc",
                     .memory = equal ? memory : Bytes{random_.below(60)},
                     .speed = equal ? 1.0 : 1.0 + random_.below(2)});
    // At least one core, for the ops that run on cores only.
    for (std::uint32_t i = 0; i < (accelerators < 3 ? 1 + random_.below(2) : 1); ++i)
      all.push_back({.name = "cpu", .kind = "cpu"});
    return Cluster::uniform(std::move(all), {.bandwidth = Bandwidth{1e9}, .latency = Duration{}});
  }

  Random random_;

 public:
  const OpGraph graph;
  const Cluster cluster;
  const ProfiledCosts costs;
};

}  // namespace baechi::testing
