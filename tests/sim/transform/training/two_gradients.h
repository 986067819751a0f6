/// A step whose backward pass makes two gradients, and what becomes of it with replicas.
#pragma once
#include "tests/sim/transform/transforms.h"

namespace baechi::testing {

/// f(10 ns, 40 B of weights) -> b1 -> b0 (20 ns each), which pass a gradient of 100 B each to u1
/// and u0 (5 ns, 80 B of optimizer state each). The engine takes 60 ns.
///   tensors: gradients that updates read; else persistent bytes, and updates wait for them
///   names: of b1 and b0
inline OpGraph two_gradients(bool tensors = true, std::array<const char*, 2> names = {"b1", "b0"}) {
  OpGraphBuilder b;
  const OpId f = b.add_op({.name = "f", .compute = 10ns, .persistent = 40_B});
  const TensorId out = b.add_tensor(f, 10_B);
  std::optional<TensorId> passed;
  std::vector<OpId> backward;
  for (const char* name : names) {
    const OpId v = b.add_op({.name = name,
                             .compute = 20ns,
                             .persistent = tensors ? 0_B : 100_B,
                             .phase = Phase::backward});
    b.set_forward(v, f);
    b.add_edge(passed ? *passed : out, v);
    passed = b.add_tensor(v, 10_B);
    backward.push_back(v);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const OpId u = b.add_op(
        {.name = i == 0 ? "u1" : "u0", .compute = 5ns, .persistent = 80_B, .phase = Phase::update});
    if (tensors)
      b.add_edge(b.add_tensor(backward[i], 100_B), u);
    else
      b.add_control(backward[i], u);
  }
  return std::move(b).build();
}

inline PlacedStep placed(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                         const Values& values) {
  const auto made = transform("data_parallel", values);
  return made->after_placing(made->apply(graph).graph, device);
}

/// All on gpu0.
inline PlacedStep placed(const OpGraph& graph, const Values& values) {
  return placed(graph, IdVector<OpId, DeviceId>(graph.num_ops(), gpu0), values);
}

inline StepResult replicas_step(const PlacedStep& step, const Cluster& cluster,
                                EngineOptions engine = {}) {
  return simulate(OwnedProblem(step.graph, cluster, engine).problem, {.device = step.device});
}

/// The step of two_gradients() on one device; 1 B takes 1 ns, also to the other replica.
inline StepResult replicas_trained(Values values, bool tensors = true) {
  values.emplace("replicas", "2");
  return replicas_step(placed(two_gradients(tensors), values), gpus(1));
}

/// Whether the graph has persistent bytes of gradients or optimizer state.
inline bool tells_apart(const OpGraph& graph) {
  return std::ranges::any_of(graph.ops(), [&](OpId v) {
    return graph.op(v).phase != Phase::forward && graph.op(v).persistent > Bytes{};
  });
}

}  // namespace baechi::testing
