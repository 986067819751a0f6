#include "sim/engine/simulation.h"

#include "sim/engine/step_graph.h"
#include "sim/error.h"
#include "sim/original/simulation.h"

namespace baechi {

StepGraph::StepGraph(const Problem& problem)
    : costs_(problem.costs),
      ops_(problem.graph.num_ops() + 1),
      tensors_(problem.graph.num_tensors() + 1),
      readers_(problem.graph.num_edges()) {
  const OpGraph& graph = problem.graph;
  num_inputs_.reserve(graph.num_ops());
  std::uint32_t input = 0;
  std::uint32_t output = 0;
  for (const OpId v : graph.ops()) {
    Op& op = ops_[index(v)];
    op = {.compute = costs_.compute(v, DeviceId{0}),
          .temporary = graph.op(v).temporary,
          .first_input = input,
          .first_output = output};
    if (graph.in_edges(v).empty()) sources_.push_back(v);
    for (const EdgeId e : graph.in_edges(v)) readers_[index(e)] = {v, input++};
    num_inputs_.push_back(input - op.first_input);
    for (const TensorId t : graph.outputs(v)) {
      const baechi::Tensor& tensor = graph.tensor(t);
      tensors_[index(t)] = {
          .size = tensor.size,
          .first_reader = static_cast<std::uint32_t>(index(*graph.readers(t).begin())),
          .is_copied = tensor.copied() == tensor.size,
          .instant = graph.instant(t)};
      op.outputs += tensor.held();
      ++output;
    }
    if (const Bytes own = graph.op(v).persistent; own != Bytes{}) weights_.push_back({v, own});
  }
  ops_.back() = {.first_input = input, .first_output = output};
  tensors_.back().first_reader = static_cast<std::uint32_t>(graph.num_edges());
  pack_costs(problem);
  num_lanes_ = graph.lanes().size();
  if (num_lanes_ > 1)
    for (const OpId v : graph.ops()) lane_.push_back(graph.lane(v));
  if (graph.collectives().empty()) return;
  collective_.assign(graph.num_ops(), no_collective);
  for (const CollectiveId c : graph.collectives().ids())
    for (const OpId v : graph.collectives()[c].member_ids()) collective_[v] = c;
}

void StepGraph::pack_costs(const Problem& problem) {
  constexpr std::size_t most_kinds = 8;  // with more, the table would outgrow the graph
  std::vector<DeviceId> kinds;           // the first device of each
  for (const DeviceId d : problem.cluster.devices()) {
    const auto same =
        std::ranges::find_if(kinds, [&](DeviceId other) { return costs_.same_compute(other, d); });
    column_.push_back(static_cast<std::size_t>(same - kinds.begin()) * problem.graph.num_ops());
    if (same == kinds.end()) kinds.push_back(d);
  }
  uniform_ = kinds.size() == 1;
  if (!uniform_ && kinds.size() <= most_kinds) {
    compute_.reserve(kinds.size() * problem.graph.num_ops());
    for (const DeviceId d : kinds)
      for (const OpId v : problem.graph.ops()) compute_.push_back(costs_.compute(v, d));
  }
  if (problem.cluster.num_devices() > 1 && costs_.uniform_transfers()) {
    transfer_.reserve(problem.graph.num_tensors());
    for (const TensorId t : problem.graph.tensors())
      transfer_.push_back(costs_.transfer(t, DeviceId{0}, DeviceId{1}));
  }
}

namespace {

void refuse_shared_device(const OpGraph& graph, const Collective& c,
                          const IdVector<OpId, DeviceId>& device) {
  for (const OpId v : c.member_ids())
    for (const OpId w : id_range<OpId>(index(c.first), index(v)))
      if (device[v] == device[w])
        throw InputError(
            fmt::format("'{}' and '{}' are on the same device, but members of one {}: place them "
                        "on different devices",
                        graph.name(w), graph.name(v), to_text(c.kind)));
}

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

void WaitingCollectives::reset(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) {
  gathered_.clear();
  waiting_.assign(graph.collectives().size(), {});
  for (const CollectiveId c : waiting_.ids()) {
    waiting_[c].missing = graph.collectives()[c].members;
    refuse_shared_device(graph, graph.collectives()[c], device);
  }
}

void WaitingCollectives::arrive(CollectiveId c, TimePoint now) {
  if (--waiting_[c].missing > 0) return;
  waiting_[c].last = now;
  const auto earlier = [&](CollectiveId other) { return waiting_[other].last < now || other < c; };
  gathered_.insert(std::ranges::partition_point(gathered_, earlier), c);
}

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
