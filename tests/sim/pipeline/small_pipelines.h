/// Pipelines of a few ops, whose steps can be added up by hand.
#pragma once
#include "sim/pipeline/pipeline.h"
#include "tests/small_graphs.h"

namespace baechi::testing {

using namespace pipeline;

/// k stages, one on each device: forward ops f0 -> f1 -> ... of 10 ns, backward ops ... b1 -> b0 of
/// 20 ns, each b reading 100 B that its f wrote; 10 B of weights each f, and `crossing` B from
/// stage to stage, which take as many ns.
inline OpGraph uniform_graph(int k, Bytes crossing, bool training) {
  OpGraphBuilder b;
  std::vector<TensorId> forward, kept;
  for (int s = 0; s < k; ++s) {
    const OpId f = b.add_op(
        {.name = "f" + std::to_string(s), .compute = 10ns, .persistent = 10_B, .temporary = 1_B});
    if (s > 0) b.add_edge(forward.back(), f);
    forward.push_back(b.add_tensor(f, crossing));
    kept.push_back(b.add_tensor(f, 100_B));
  }
  std::optional<TensorId> gradient;
  for (int s = k; training && s-- > 0;) {
    const OpId v =
        b.add_op({.name = "b" + std::to_string(s), .compute = 20ns, .phase = Phase::backward});
    b.add_edge(kept[static_cast<std::size_t>(s)], v);
    if (gradient) b.add_edge(*gradient, v);
    gradient = b.add_tensor(v, crossing);
  }
  return std::move(b).build();
}

class Uniform : public OwnedProblem {
 public:
  Uniform(int k, Bytes crossing, bool training = true)
      : OwnedProblem(uniform_graph(k, crossing, training), gpus(static_cast<std::size_t>(k))) {
    for (int s = 0; s < k; ++s) placement.device.push_back(static_cast<DeviceId>(s));
    for (int s = k; training && s-- > 0;) placement.device.push_back(static_cast<DeviceId>(s));
  }
  PipelineResult run(const char* schedule, std::size_t micro_batches, bool recompute = false,
                     EngineOptions engine = {}) const {
    return simulate_pipeline(
        {graph, cluster, costs, engine}, placement,
        {.schedule = schedule, .micro_batches = micro_batches, .recompute = recompute});
  }

  Placement placement;
};

inline std::vector<std::size_t> in_flight(const PipelineResult& r) {
  std::vector<std::size_t> all;
  for (const StageUse& s : r.stages) all.push_back(s.in_flight);
  return all;
}
inline std::vector<std::size_t> versions(const PipelineResult& r) {
  std::vector<std::size_t> all;
  for (const StageUse& s : r.stages) all.push_back(s.versions);
  return all;
}
inline std::vector<std::int64_t> at_peak(const PipelineResult& r, MemoryKind kind) {
  std::vector<std::int64_t> all;
  for (const StageUse& s : r.stages) all.push_back(s.at_peak[kind].count);
  return all;
}

using Numbers = std::vector<std::size_t>;
using Sizes = std::vector<std::int64_t>;

/// A chain of `chunks` chunks with F, B and W of so many ns, no bytes between them; `device_of`
/// says where each chunk is.
class Chain : public OwnedProblem {
 public:
  struct Times {
    Duration forward, backward, weights;
  };
  Chain(std::size_t chunks, Times times, std::size_t devices, auto device_of)
      : OwnedProblem(make_graph(chunks, times), gpus(devices)) {
    for (const OpId v : graph.ops()) {
      const auto chunk = static_cast<std::size_t>(std::stoul(std::string(graph.name(v)).substr(1)));
      placement.device.push_back(static_cast<DeviceId>(device_of(chunk)));
    }
  }
  Duration makespan(const char* schedule, std::size_t micro_batches) const {
    return simulate_pipeline(problem, placement,
                             {.schedule = schedule, .micro_batches = micro_batches})
        .makespan;
  }

  Placement placement;

 private:
  static OpGraph make_graph(std::size_t chunks, Times times) {
    OpGraphBuilder b;
    std::vector<TensorId> forward;
    for (std::size_t c = 0; c < chunks; ++c) {
      const OpId f = b.add_op({.name = "f" + std::to_string(c), .compute = times.forward});
      if (c > 0) b.add_edge(forward.back(), f);
      forward.push_back(b.add_tensor(f, 0_B));
    }
    std::optional<TensorId> gradient;
    for (std::size_t c = chunks; c-- > 0;) {
      const OpId v = b.add_op(
          {.name = "b" + std::to_string(c), .compute = times.backward, .phase = Phase::backward});
      b.add_edge(forward[c], v);
      if (gradient) b.add_edge(*gradient, v);
      if (times.weights > 0ns) {
        const OpId w = b.add_op(
            {.name = "w" + std::to_string(c), .compute = times.weights, .phase = Phase::backward});
        b.add_edge(forward[c], w);
        if (gradient) b.add_edge(*gradient, w);
      }
      gradient = b.add_tensor(v, 0_B);
    }
    // Takes no time: what makes the first chunk's b worth its while.
    const OpId input = b.add_op({.name = "i0", .phase = Phase::backward});
    b.add_edge(*gradient, input);
    return std::move(b).build();
  }
};

/// `graph` as the forward pass of a training graph: a backward op for each op.
inline OpGraph trained(const OpGraph& graph) {
  OpGraphBuilder b;
  std::vector<std::vector<TensorId>> outputs;
  for (const OpId v : graph.ops()) {
    b.add_op({.name = graph.name(v),
              .compute = graph.op(v).compute,
              .persistent = graph.op(v).persistent});
    outputs.emplace_back();
    for (const TensorId t : graph.outputs(v))
      outputs.back().push_back(b.add_tensor(v, graph.tensor(t).size));
    for (const EdgeId e : graph.in_edges(v)) {
      const Edge& edge = graph.edge(e);
      b.add_edge(
          outputs[index(edge.src)][index(edge.tensor) - index(*graph.outputs(edge.src).begin())],
          v);
    }
  }
  std::vector<TensorId> gradient(graph.num_ops());
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    const auto v = static_cast<OpId>(i);
    const OpId back = b.add_op({.name = std::string(graph.name(v)) + "_grad",
                                .compute = graph.op(v).compute,
                                .phase = Phase::backward});
    gradient[i] = b.add_tensor(back, 8_B);
    b.add_control(v, back);
    for (const TensorId t : outputs[i]) b.add_edge(t, back);
    for (const EdgeId e : graph.out_edges(v)) b.add_edge(gradient[index(graph.edge(e).dst)], back);
  }
  return std::move(b).build();
}

}  // namespace baechi::testing
