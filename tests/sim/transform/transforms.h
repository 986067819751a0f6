/// Making and describing transformed graphs.
#pragma once
#include "sim/engine/simulation.h"
#include "sim/random.h"
#include "sim/transform/transform.h"
#include "tests/small_graphs.h"

namespace baechi::testing {

using Values = std::map<std::string, std::string>;

inline std::unique_ptr<Transform> transform(const std::string& name, const Values& values = {}) {
  Options options(name);
  for (const auto& [key, text] : values)
    options.set(key, {.text = text, .where = "x.yaml:1:2", .children = {}});
  return make_transform(name, std::move(options));
}

inline Transformed apply(const std::string& name, const OpGraph& graph, const Values& values = {}) {
  return transform(name, values)->apply(graph);
}

inline StepResult step_on_gpu0(const OpGraph& graph, const EngineOptions& engine = {}) {
  return simulate(OwnedProblem(graph, gpus(1), engine).problem,
                  {.device = IdVector<OpId, DeviceId>(graph.num_ops(), gpu0)});
}

/// Everything there is to a graph, as text.
inline std::string text(const OpGraph& g) {
  std::string all = fmt::format("{}\n", fmt::join(g.device_kinds(), " "));
  for (const OpId v : g.ops()) {
    const Op& op = g.op(v);
    all += fmt::format("{} {} {} {} {} {} {} {} {} {} {}", g.name(v), g.kind(v), op.compute.count(),
                       op.persistent.count, op.temporary.count, static_cast<int>(op.phase),
                       static_cast<std::uint32_t>(op.forward), g.work(v).flops,
                       g.work(v).traffic.count, to_text(g.work(v).precision),
                       op.group == no_group ? "" : g.group_name(op.group));
    for (std::size_t k = 0; k < g.device_kinds().size(); ++k)
      all += fmt::format(" {}", g.compute(v, k).value_or(Duration{-1}).count());
    for (const TensorId t : g.outputs(v))
      all += fmt::format(" [{} {} {} {} {}]", g.tensor(t).size.count, g.tensor(t).control,
                         g.tensor(t).reference, g.tensor(t).fixed_size,
                         g.measured_transfer(t).value_or(Duration{-1}).count());
    for (const EdgeId e : g.out_edges(v))
      all += fmt::format(" {}->{}", index(g.edge(e).tensor), index(g.edge(e).dst));
    all += '\n';
  }
  return all;
}

/// A training graph: `n` forward ops, most with a backward op, some with a variable and its update;
/// random groups in addition.
inline OpGraph training_graph(std::uint32_t n, Random& random) {
  OpGraphBuilder b;
  const auto bytes = [&] { return Bytes{random.below(100)}; };
  std::vector<OpId> forward;
  std::vector<TensorId> out;
  const auto add = [&](const std::string& name, Phase phase) {
    const OpId v = b.add_op({.name = name,
                             .kind = "K",
                             .compute = Duration{random.below(50)},
                             .persistent = random.below(3) == 0 ? bytes() : 0_B,
                             .temporary = bytes(),
                             .phase = phase});
    b.add_kernel(v, {.flops = random.below(1000), .traffic = bytes()});
    if (random.below(5) == 0) b.colocate(v, fmt::format("g{}", random.below(4)));
    return v;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    forward.push_back(add(fmt::format("f{}", i), Phase::forward));
    for (std::uint32_t k = random.below(3); k > 0 && i > 0; --k)
      b.add_edge(out[random.below(i)], forward.back());
    out.push_back(b.add_tensor(forward.back(), bytes(), random.below(6) == 0));
    if (random.below(4) == 0) b.set_transfer(out.back(), Duration{random.below(30)});
  }
  std::vector<TensorId> gradients;
  for (std::uint32_t i = n; i-- > 0;) {
    if (random.below(5) == 0) continue;
    const OpId g = add(fmt::format("b{}", i), Phase::backward);
    if (random.below(4) != 0) b.set_forward(g, forward[i]);
    b.add_edge(out[i], g);
    if (!gradients.empty())
      b.add_edge(gradients[random.below(static_cast<std::uint32_t>(gradients.size()))], g);
    gradients.push_back(b.add_tensor(g, bytes()));
    if (random.below(3) != 0) continue;
    const OpId u = add(fmt::format("u{}", i), Phase::update);
    b.add_edge(gradients.back(), u);
    if (random.below(2) == 0) b.add_control(g, u);
  }
  return std::move(b).build();
}

struct Totals {
  Duration compute{};
  Bytes persistent{};
  OpWork work{};
  friend bool operator==(const Totals&, const Totals&) = default;
};
inline Totals step_totals(const OpGraph& graph) {
  Totals sum;
  for (const OpId v : graph.ops()) {
    sum.compute += graph.op(v).compute;
    sum.persistent += graph.op(v).persistent;
    sum.work.flops += graph.work(v).flops;
    sum.work.traffic += graph.work(v).traffic;
  }
  return sum;
}

/// The groups' names in id order of the ops, "-" where there is none.
inline std::string groups(const OpGraph& graph) {
  std::string all;
  for (const OpId v : graph.ops()) {
    const GroupId g = graph.op(v).group;
    all += (all.empty() ? "" : " ") + (g == no_group ? std::string("-") : graph.group_name(g));
  }
  return all;
}

/// Names of the mapped ops of `graph`, in id order.
inline std::string leaders(const OpGraph& graph, const Transformed& result) {
  std::string all;
  for (const OpId v : graph.ops()) {
    const OpId s = result.mapped_op[v];
    all += fmt::format("{}{}", all.empty() ? "" : " ", s == no_op ? "-" : result.graph.name(s));
  }
  return all;
}

}  // namespace baechi::testing
