/// libFuzzer target: bytes as a small problem of extreme times, sizes, speeds and links. If
/// check_limits() accepts it, all quick placers place it and all engine modes simulate it without
/// overflow: no time or size is negative, and no step is below the lower bound.

#include "placers/interface/registry.h"

namespace baechi {
namespace {

/// Numbers from the bytes; zeros after the last byte.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::size_t below(std::size_t n) { return next() % n; }
  template <class T, std::size_t n>
  T of(const std::array<T, n>& values) {
    return values[below(n)];
  }

 private:
  std::uint8_t next() {
    if (bytes_.empty()) return 0;
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

  std::span<const std::uint8_t> bytes_;
};

constexpr std::int64_t bit(unsigned n) { return std::int64_t{1} << n; }

OpGraph make_graph(Choices& choices) {
  constexpr std::array<std::int64_t, 8> times{0,       1,       1000,        bit(31),
                                              bit(46), bit(60), bit(61) - 1, bit(61)};
  constexpr std::array<std::int64_t, 8> sizes{0,       1,       1000,        bit(32),
                                              bit(53), bit(57), bit(58) - 1, bit(59)};
  OpGraphBuilder b;
  const std::size_t n = 1 + choices.below(6);
  for (std::size_t i = 0; i < n; ++i) {
    const OpId v = b.add_op({.name = fmt::format("op{}", i),
                             .kind = {},
                             .compute = Duration{choices.of(times)},
                             .persistent = {choices.of(sizes)},
                             .temporary = {choices.of(sizes)}});
    const TensorId t = b.add_tensor(v, {choices.of(sizes)});
    if (choices.below(8) == 0) b.set_transfer(t, Duration{choices.of(times)});
    if (choices.below(4) == 0) b.colocate(v, "together");
    if (i == 0) continue;
    for (std::size_t edges = choices.below(3); edges > 0; --edges)
      b.add_edge(TensorId{static_cast<std::uint32_t>(choices.below(i))}, v);
  }
  return std::move(b).build();
}

Cluster make_cluster(Choices& choices) {
  constexpr std::array<std::int64_t, 4> memories{1000, bit(53), bit(60), bit(62) + bit(61)};
  constexpr std::array<double, 6> speeds{1.0, 1e-300, 1e-9, 0.5, 1e9, 1e300};
  constexpr std::array<double, 6> rates{1e9, 5.7, 1e-300, 1e-9, 1e18, 1e300};
  constexpr std::array<std::int64_t, 5> latencies{0, 1, bit(40), bit(61), bit(62) + bit(61)};
  IdVector<DeviceId, Device> devices;
  const std::size_t n = 1 + choices.below(4);
  for (std::size_t i = 0; i < n; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i),
                       .kind = {},
                       .memory = {choices.of(memories)},
                       .speed = choices.of(speeds)});
  const auto link = [&] {
    return Link{.bandwidth = {choices.of(rates)}, .latency = Duration{choices.of(latencies)}};
  };
  Cluster cluster = Cluster::uniform(std::move(devices), link());
  if (n > 1 && choices.below(2) == 0) cluster.set_link(DeviceId{0}, DeviceId{1}, link());
  return cluster;
}

void check_step(const Problem& problem, const Placement& placement, std::string_view placer) {
  const StepResult step = simulate(problem, placement);
  BAECHI_CHECK(step.makespan >= Duration::zero(), "{}: {} ns", placer, step.makespan.count());
  BAECHI_CHECK(step.moved >= Bytes{}, "{}: {} B moved", placer, step.moved.count);
  for (const DeviceUse& use : step.devices) {
    BAECHI_CHECK(use.peak >= Bytes{}, "{}: a peak of {} B", placer, use.peak.count);
    BAECHI_CHECK(use.busy >= Duration::zero(), "{}: busy {} ns", placer, use.busy.count());
  }
  if (step.oom || problem.engine.semantics != Semantics::event) return;
  const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
  BAECHI_CHECK(step.makespan >= bounds.critical_path, "{}: {} ns, faster than the longest path {}",
               placer, step.makespan.count(), bounds.critical_path.count());
}

}  // namespace
}  // namespace baechi

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace baechi;
  constexpr std::array modes{Transfers::sequential, Transfers::parallel, Transfers::duplex,
                             Transfers::shared, Transfers::staged};
  Choices choices({data, size});
  try {
    const EngineOptions engine{.transfers = choices.of(modes),
                               .cache_tensors = choices.below(2) == 0,
                               .overlap = choices.below(2) == 0,
                               .enforce_memory = choices.below(2) == 0};
    const Cluster cluster = make_cluster(choices);
    const OpGraph graph = make_graph(choices);
    const ProfiledCosts costs(graph, cluster);
    check_limits(graph, cluster, costs);
    const Problem problem{graph, cluster, costs, engine};
    for (const PlacerEntry& entry : placers()) {
      if (entry.quick_ops == 0) continue;
      try {
        const auto placer = make_placer(entry.name, Options(std::string(entry.name)));
        check_step(problem, placer->place(problem, 1), entry.name);
      } catch (const InfeasibleError&) {
      }
    }
  } catch (const InputError&) {
  }
  return 0;
}
