#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

/// The same costs, but without the information that devices or links are equal.
class SecretCosts final : public CostModel {
 public:
  Duration collective(const Collective&, std::span<const DeviceId>) const override { return {}; }
  explicit SecretCosts(const CostModel& costs) : costs_(costs) {}
  Duration compute(OpId op, DeviceId device) const override { return costs_.compute(op, device); }
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override {
    return costs_.transfer(tensor, src, dst);
  }
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override {
    return costs_.latency(tensor, src, dst);
  }

 private:
  const CostModel& costs_;
};

/// The cluster with the same memory for all devices, or the cluster itself.
Cluster with_memory(const Cluster& cluster, Bytes memory) {
  IdVector<DeviceId, Device> devices;
  for (const DeviceId d : cluster.devices()) {
    devices.push_back(cluster.device(d));
    devices[d].memory = memory;
  }
  Cluster result = Cluster::uniform(std::move(devices), {});
  for (const DeviceId src : cluster.devices())
    for (const DeviceId dst : cluster.devices()) result.set_link(src, dst, cluster.link(src, dst));
  return result;
}

/// The devices and priorities as text, or the reason why there are none.
std::string answer(const Placer& placer, const Problem& problem) {
  try {
    const Placement placement = placer.place(problem, 0);
    std::string text;
    for (const OpId v : problem.graph.ops())
      text += fmt::format("{}:{} ", index(placement.device[v]),
                          placement.priority.empty() ? 0 : placement.priority[v]);
    return text;
  } catch (const InfeasibleError& e) {
    return e.what();
  }
}

}  // namespace

TEST_SUITE("list scheduler") {
  // If devices are known to be equal and memory is ample, devices without an input are tested all
  // at once; otherwise each device is tested.
  TEST_CASE("testing fewer devices does not change the schedule") {
    std::vector<std::unique_ptr<Placer>> placers;
    placers.push_back(make_placer("m_etf"));
    placers.push_back(make_placer("m_sct"));
    std::size_t feasible = 0;
    for (std::uint64_t seed = 0; seed < 120; ++seed) {
      const RandomProblem random({.ops = 60, .degree = 3, .reach = 30},
                                 2 + static_cast<std::uint32_t>(seed % 23), seed);
      const Cluster tight =
          with_memory(random.cluster, Bytes{1500 + 500 * static_cast<std::int64_t>(seed % 5)});
      for (const Transfers transfers : {Transfers::sequential, Transfers::parallel,
                                        Transfers::duplex, Transfers::shared, Transfers::staged}) {
        for (const bool cache : {true, false}) {
          const EngineOptions engine{.transfers = transfers, .cache_tensors = cache};
          const SecretCosts secret(random.costs);
          const Cluster& cluster = seed % 2 == 0 ? random.cluster : tight;
          INFO("seed ", seed, ", transfers ", static_cast<int>(transfers), ", cache ", cache);
          const auto& placer = *placers[seed % 4 / 2];
          const std::string text = answer(placer, {random.graph, cluster, random.costs, engine});
          CHECK(text == answer(placer, {random.graph, cluster, secret, engine}));
          if (!text.starts_with("m_")) ++feasible;
        }
      }
    }
    CHECK(feasible > 600);  // of 1200
  }
}
