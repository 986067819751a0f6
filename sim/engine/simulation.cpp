#include "sim/engine/simulation.h"

#include "sim/error.h"
#include "sim/original/simulation.h"

namespace baechi {
namespace {

/// Steps under Semantics::baechi.
class OriginalEngine final : public Simulator::Engine {
 public:
  explicit OriginalEngine(const Problem& p)
      : graph_(original::Graph::from(p.graph, p.costs, p.cluster)),
        simulator_(graph_, p.cluster.num_devices()) {}

  const StepResult& run(const Placement& placement,
                        std::span<StepObserver* const> observers) override {
    return simulator_.run(placement.device, nullptr, observers).result;
  }

 private:
  original::Graph graph_;
  original::Simulator simulator_;
};

}  // namespace

void check_engine(const Cluster& cluster, const EngineOptions& options) {
  if (options.semantics == Semantics::baechi) return original::require_uniform(cluster);
  if (options.transfers == Transfers::staged && cluster.num_nodes() > 1)
    throw InputError(
        fmt::format("engine.transfers: staged needs one machine, and the cluster has {} nodes",
                    cluster.num_nodes()));
}

Simulator::Simulator(const Problem& problem)
    : num_ops_(problem.graph.num_ops()), num_devices_(problem.cluster.num_devices()) {
  check_engine(problem.cluster, problem.engine);
  if (problem.engine.semantics == Semantics::baechi)
    engine_ = std::make_unique<OriginalEngine>(problem);
  else
    engine_ = make_event_engine(problem);
}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

const StepResult& Simulator::run(const Placement& placement,
                                 std::span<StepObserver* const> observers) {
  BAECHI_CHECK(placement.device.size() == num_ops_, "{} of {} ops placed", placement.device.size(),
               num_ops_);
  BAECHI_CHECK(placement.priority.empty() || placement.priority.size() == num_ops_,
               "{} of {} ops have a priority", placement.priority.size(), num_ops_);
  std::uint32_t largest = 0;
  for (const DeviceId d : placement.device)
    largest = std::max(largest, static_cast<std::uint32_t>(index(d)));
  BAECHI_CHECK(largest < num_devices_ || num_ops_ == 0, "device {} of {}", largest, num_devices_);
  return engine_->run(placement, observers);
}

StepResult simulate(const Problem& problem, const Placement& placement,
                    std::span<StepObserver* const> observers) {
  return Simulator(problem).run(placement, observers);
}

}  // namespace baechi
