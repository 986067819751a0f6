#include "sim/pipeline/unroll.h"

#include <algorithm>
#include <map>

#include "sim/error.h"

namespace baechi {
namespace {

/// Samples that a stage may be ahead of the next one, where nothing else limits it: one that is
/// computed there, one that is on its way and one that is ready.
constexpr std::uint32_t ahead = 3;

bool is_forward(const OpGraph& graph, OpId v) {
  return graph.op(v).phase == Phase::forward;
}

/// device -> those that read from it in the forward pass.
using Readers = IdVector<DeviceId, std::vector<bool>>;

Readers forward_readers(const Problem& p, const Placement& placement) {
  const std::size_t n = p.cluster.num_devices();
  Readers readers(n, std::vector<bool>(n, false));
  for (const EdgeId e : p.graph.edges()) {
    const Edge& edge = p.graph.edge(e);
    const DeviceId a = placement.device[edge.src], b = placement.device[edge.dst];
    if (a != b && is_forward(p.graph, edge.src) && is_forward(p.graph, edge.dst))
      readers[a][index(b)] = true;
  }
  return readers;
}

/// Ops of one micro-batch, on one device, of one pass: where they begin and where they end.
struct Pass {
  std::vector<OpId> all, first, last;
};

/// Copies ops of a builder's graph; ids below are the builder's.
class Unroller {
 public:
  Unroller(const Problem& p, const Placement& placement, const PipelineOptions& options)
      : p_(p),
        graph_(p.graph),
        device_(placement.device),
        options_(options),
        last_(static_cast<std::uint32_t>(options.micro_batches) - 1),
        stages_(stages_of(p, placement)),
        readers_(forward_readers(p, placement)),
        passes_(options.micro_batches * p.cluster.num_devices() * 2) {}

  Unrolled make() {
    check_phases();
    for (std::uint32_t i = 0; i <= last_; ++i) copy_ops(i);
    for (std::uint32_t i = 0; i <= last_; ++i) copy_edges(i);
    for (Pass& pass : passes_) find_ends(pass);
    for (std::size_t s = 0; s < stages_.devices.size(); ++s) order(s);
    return build();
  }

 private:
  struct Copy {
    OpId origin = no_op;
    std::uint32_t micro_batch = 0;
    DeviceId device{};
    bool backward = false;  // the pass
    TensorId first_output{};
    bool reads_own = false, read_by_own = false;  // pass
  };

  bool backward_first() const {
    return options_.scheme == PipelineScheme::one_forward_one_backward ||
           options_.scheme == PipelineScheme::two_buffered;
  }
  bool updates_each() const { return options_.scheme == PipelineScheme::one_forward_one_backward; }
  bool runs(OpId v, std::uint32_t micro_batch) const {
    const Phase phase = graph_.op(v).phase;
    if (phase == Phase::forward) return true;
    if (options_.scheme == PipelineScheme::inference) return false;
    return phase != Phase::update || micro_batch == last_ || updates_each();
  }

  void check_phases() const {
    for (const EdgeId e : graph_.edges()) {
      const Edge& edge = graph_.edge(e);
      if (!is_forward(graph_, edge.src) && is_forward(graph_, edge.dst))
        throw InputError(fmt::format(
            "no pipeline: forward op '{}' reads from '{}', which is not of the forward pass",
            graph_.name(edge.dst), graph_.name(edge.src)));
    }
  }

  Pass& pass(std::uint32_t micro_batch, DeviceId d, bool backward) {
    return passes_[(micro_batch * p_.cluster.num_devices() + index(d)) * 2 + (backward ? 1 : 0)];
  }

  OpId add(OpId v, std::uint32_t i, bool backward, std::string_view name, Bytes persistent) {
    const Op& op = graph_.op(v);
    const OpId copy = builder_.add_op({.name = name,
                                       .kind = graph_.kind(v),
                                       .compute = op.compute,
                                       .persistent = persistent,
                                       .temporary = op.temporary,
                                       .phase = op.phase});
    Copy& c = copies_[copies_.push_back({v, i, device_[v], backward})];
    for (const TensorId t : graph_.outputs(v)) {
      const Tensor& tensor = graph_.tensor(t);
      if (keeps_control(t)) continue;
      const TensorId made =
          builder_.add_tensor(copy, tensor.size, tensor.reference || tensor.control);
      if (t == *graph_.outputs(v).begin()) c.first_output = made;
    }
    pass(i, device_[v], backward).all.push_back(copy);
    return copy;
  }
  /// Only what is free stays a control dependency, for all of them are free in the unrolled graph.
  bool keeps_control(TensorId t) const { return graph_.instant(t); }

  void copy_ops(std::uint32_t i) {
    std::vector<OpId>& copy = copy_of_.emplace_back(graph_.num_ops(), no_op);
    std::vector<OpId>& again = again_of_.emplace_back(graph_.num_ops(), no_op);
    for (const OpId v : graph_.ops()) {
      if (!runs(v, i)) continue;
      const bool first = i == 0 || (i == last_ && !runs(v, 0));
      Bytes weights;
      if (first) weights = static_cast<int>(versions(device_[v])) * graph_.op(v).persistent;
      copy[index(v)] =
          add(v, i, !is_forward(graph_, v), fmt::format("{}#{}", graph_.name(v), i), weights);
    }
    if (!options_.recompute || options_.scheme == PipelineScheme::inference) return;
    for (const OpId v : graph_.ops())
      if (is_forward(graph_, v))
        again[index(v)] = add(v, i, true, fmt::format("{}#{} again", graph_.name(v), i), Bytes{});
  }

  std::size_t versions(DeviceId d) const {
    const auto s = std::ranges::find(stages_.devices, d) - stages_.devices.begin();
    return weight_versions(options_.scheme, static_cast<std::size_t>(s), stages_.devices.size());
  }

  void copy_edges(std::uint32_t i) {
    for (const EdgeId e : graph_.edges()) {
      const Edge& edge = graph_.edge(e);
      const OpId from = copy_of_[i][index(edge.src)], to = copy_of_[i][index(edge.dst)];
      const OpId from_again = again_of_[i][index(edge.src)],
                 to_again = again_of_[i][index(edge.dst)];
      const bool near = device_[edge.src] == device_[edge.dst] && from_again != no_op;
      if (to_again != no_op) read(edge.tensor, near ? from_again : from, to_again);
      if (from == no_op || to == no_op) continue;
      read(edge.tensor, near && !is_forward(graph_, edge.dst) ? from_again : from, to);
    }
  }

  void read(TensorId t, OpId from, OpId to) {
    Copy& a = copies_[from];
    Copy& b = copies_[to];
    if (a.device == b.device && a.backward == b.backward) a.read_by_own = b.reads_own = true;
    if (keeps_control(t)) return builder_.add_control(from, to);
    const std::size_t output = index(t) - index(*graph_.outputs(a.origin).begin());
    builder_.add_edge(static_cast<TensorId>(index(a.first_output) + output), to);
  }

  void find_ends(Pass& pass) const {
    for (const OpId v : pass.all) {
      if (!copies_[v].reads_own) pass.first.push_back(v);
      if (!copies_[v].read_by_own) pass.last.push_back(v);
    }
  }

  /// On `device`, `after` begin when all of `before` have ended.
  void gate(DeviceId device, const std::vector<OpId>& before, const std::vector<OpId>& after) {
    if (before.empty() || after.empty()) return;
    const OpId op = builder_.add_op({.name = fmt::format("order#{}", copies_.size())});
    copies_.push_back({.device = device});
    for (const OpId v : before) builder_.add_control(v, op);
    for (const OpId v : after) builder_.add_control(op, v);
  }

  void order(std::size_t stage) {
    const DeviceId d = stages_.devices[stage];
    const auto in_flight = static_cast<std::uint32_t>(stages_.devices.size() - stage);
    std::vector<OpId> all_forward, all_backward, updates, first_backward;
    for (std::uint32_t i = 0; i <= last_; ++i) {
      const Pass &forward = pass(i, d, false), &backward = pass(i, d, true);
      if (options_.scheme == PipelineScheme::inference)
        gate(d, far_behind(i, stage), forward.first);
      if (backward_first() && i >= in_flight)
        gate(d, pass(i - in_flight, d, true).last, forward.first);
      gate(d, forward.last, backward.first);
      if (options_.recompute) gate(d, gradients_from_elsewhere(i, d), recomputed_first(i, d));
      all_forward.insert(all_forward.end(), forward.last.begin(), forward.last.end());
      first_backward.insert(first_backward.end(), backward.first.begin(), backward.first.end());
      if (i < last_)
        all_backward.insert(all_backward.end(), backward.last.begin(), backward.last.end());
    }
    if (options_.scheme == PipelineScheme::gpipe) gate(d, all_forward, first_backward);
    if (updates_each()) return;
    for (const OpId v : pass(last_, d, true).all)
      if (graph_.op(copies_[v].origin).phase == Phase::update) updates.push_back(v);
    gate(d, all_backward, updates);
  }

  /// What the stages that read from `stage` must have done before it begins micro-batch i: `ahead`
  /// for each stage they are behind it, or, if they are before it, as if they were behind all.
  std::vector<OpId> far_behind(std::uint32_t i, std::size_t stage) {
    std::vector<OpId> ops;
    for (std::size_t s = 0; s < stages_.devices.size(); ++s) {
      const auto steps = static_cast<std::uint32_t>(s > stage ? s - stage : stages_.devices.size());
      const DeviceId reader = stages_.devices[s];
      if (!readers_[stages_.devices[stage]][index(reader)] || i < ahead * steps) continue;
      const std::vector<OpId>& last = pass(i - ahead * steps, reader, false).last;
      ops.insert(ops.end(), last.begin(), last.end());
    }
    return ops;
  }

  /// What the backward pass waits for, so that the forward pass is not run again too early.
  std::vector<OpId> gradients_from_elsewhere(std::uint32_t i, DeviceId d) {
    std::vector<OpId> producers;
    for (const EdgeId e : graph_.edges()) {
      const Edge& edge = graph_.edge(e);
      const OpId from = copy_of_[i][index(edge.src)], to = copy_of_[i][index(edge.dst)];
      if (device_[edge.dst] == d && device_[edge.src] != d && from != no_op && to != no_op &&
          !is_forward(graph_, edge.src))
        producers.push_back(from);
    }
    return producers;
  }

  std::vector<OpId> recomputed_first(std::uint32_t i, DeviceId d) {
    std::vector<OpId> ops = pass(i, d, true).first;
    std::erase_if(ops, [&](OpId v) { return !is_forward(graph_, copies_[v].origin); });
    return ops;
  }

  /// Larger runs first.
  std::int32_t priority(const Copy& c) const {
    const auto i = static_cast<std::int32_t>(c.micro_batch);
    const auto n = static_cast<std::int32_t>(last_) + 1;
    if (c.origin == no_op) return 3 * n;
    if (!c.backward) return -i;
    return backward_first() ? 2 * n - i : i;
  }

  Unrolled build() {
    Unrolled result;
    IdVector<OpId, OpId> renumbered;
    result.graph = std::move(builder_).build(&renumbered).with_free_controls();
    const std::size_t n = result.graph.num_ops();
    result.origin = IdVector<OpId, OpId>(n, no_op);
    result.micro_batch = IdVector<OpId, std::uint32_t>(n);
    result.backward = IdVector<OpId, std::uint8_t>(n);
    result.placement.device = IdVector<OpId, DeviceId>(n);
    result.placement.priority = IdVector<OpId, std::int32_t>(n);
    result.tensor_origin = IdVector<TensorId, TensorId>(result.graph.num_tensors());
    for (const OpId v : copies_.ids()) {
      const Copy& c = copies_[v];
      const OpId now = renumbered[v];
      result.origin[now] = c.origin;
      result.micro_batch[now] = c.micro_batch;
      result.backward[now] = c.backward ? 1 : 0;
      result.placement.device[now] = c.device;
      result.placement.priority[now] = priority(c);
      if (c.origin == no_op) continue;
      const auto made = result.graph.outputs(now), given = graph_.outputs(c.origin);
      for (std::size_t k = 0; k < std::min(made.size(), given.size()); ++k)
        result.tensor_origin[made[static_cast<std::ptrdiff_t>(k)]] =
            given[static_cast<std::ptrdiff_t>(k)];
    }
    return result;
  }

  const Problem p_;
  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  const PipelineOptions options_;
  const std::uint32_t last_;  // micro-batch
  const Stages stages_;
  const Readers readers_;
  OpGraphBuilder builder_;
  IdVector<OpId, Copy> copies_;
  std::vector<std::vector<OpId>> copy_of_, again_of_;  // [micro_batches][num_ops] or no_op
  std::vector<Pass> passes_;                           // [micro_batches, num_devices, 2]
};

}  // namespace

Stages stages_of(const Problem& p, const Placement& placement) {
  const Readers readers = forward_readers(p, placement);
  std::vector<DeviceId> left;  // by first ops
  for (const OpId v : p.graph.ops())
    if (std::ranges::find(left, placement.device[v]) == left.end())
      left.push_back(placement.device[v]);
  Stages stages;
  while (!left.empty()) {
    const auto waits = [&](DeviceId d) {
      return std::ranges::any_of(left, [&](DeviceId other) { return readers[other][index(d)]; });
    };
    auto next = std::ranges::find_if_not(left, waits);
    if (next == left.end()) {
      stages.in_line = false;
      next = left.begin();
    }
    stages.devices.push_back(*next);
    left.erase(next);
  }
  return stages;
}

std::size_t weight_versions(PipelineScheme scheme, std::size_t stage, std::size_t stages) {
  switch (scheme) {
    case PipelineScheme::one_forward_one_backward:
      return stages - stage;
    case PipelineScheme::two_buffered:
      return 2;
    case PipelineScheme::inference:
    case PipelineScheme::gpipe:
      break;
  }
  return 1;
}

Unrolled unroll(const Problem& problem, const Placement& placement,
                const PipelineOptions& options) {
  BAECHI_CHECK(options.micro_batches > 0, "no micro-batch");
  return Unroller(problem, placement, options).make();
}

}  // namespace baechi
