#include "sim/graph/op_graph.h"

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <numeric>
#include <unordered_set>

#include "sim/error.h"
#include "sim/graph/analysis.h"

namespace baechi {

std::optional<OpId> OpGraph::find(std::string_view wanted) const {
  for (const OpId v : ops()) {
    if (name(v) == wanted) return v;
  }
  return std::nullopt;
}

MatrixShape MatrixShape::filled(std::int64_t flops) const {
  MatrixShape whole = *this;
  double known = 2.0;
  std::int64_t* missing = nullptr;
  for (std::int64_t* extent : {&whole.count, &whole.rows, &whole.columns, &whole.inner}) {
    if (*extent == 0)
      missing = extent;
    else
      known *= static_cast<double>(*extent);
  }
  if (missing != nullptr)
    *missing =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(flops) / known));
  return whole;
}

OpWork OpGraph::work(OpId v) const {
  OpWork sum;
  for (const OpWork& kernel : kernels(v)) {
    sum.flops += kernel.flops;
    sum.traffic += kernel.traffic;
    sum.weights += kernel.weights;
  }
  if (!kernels(v).empty()) sum.precision = kernels(v).front().precision;
  return sum;
}

CollectiveId OpGraph::collective_of(OpId v) const {
  const auto after = std::ranges::upper_bound(collectives_, v, {}, &Collective::first);
  if (after == collectives_.begin()) return no_collective;
  const auto c = static_cast<CollectiveId>(after - collectives_.begin() - 1);
  const Collective& found = collectives_[c];
  return index(v) < index(found.first) + found.members ? c : no_collective;
}

std::optional<Duration> OpGraph::compute(OpId v, std::size_t kind) const {
  if (kind == 0) {
    if (ops_[v].compute < Duration::zero()) return std::nullopt;
    return ops_[v].compute;
  }
  const Duration time = compute_[kind - 1][v];
  return time < Duration::zero() ? std::nullopt : std::optional(time);
}

OpGraph OpGraph::with_times(std::string_view kind, const IdVector<OpId, Duration>& compute) && {
  BAECHI_CHECK(compute.size() == num_ops(), "one time per op");
  const auto known = std::ranges::find(device_kinds_, kind);
  const auto k = static_cast<std::size_t>(known - device_kinds_.begin());
  if (known == device_kinds_.end()) {
    device_kinds_.emplace_back(kind);
    if (k > 0) compute_.push_back(compute);
  } else if (k > 0) {
    compute_[k - 1] = compute;
  }
  if (k == 0) {
    for (const OpId v : ops()) ops_[v].compute = compute[v];
  }
  return std::move(*this);
}

OpGraph OpGraph::with_groups(const IdVector<OpId, GroupId>& group,
                             std::span<const std::string> names) && {
  BAECHI_CHECK(group.size() == num_ops(), "one group per op");
  group_names_.clear();
  members_.clear();
  std::unordered_set<std::string> taken;
  const auto unique = [&](const std::string& name) {
    std::string candidate = name;
    for (int n = 2; !taken.insert(candidate).second; ++n)
      candidate = name + '@' + std::to_string(n);
    return candidate;
  };
  std::vector<GroupId> number(names.size() + 1, no_group);
  for (const OpId v : ops()) {
    GroupId& known = number[index(group[v])];
    if (group[v] != no_group && known == no_group) {
      group_names_.push_back(unique(names[index(group[v]) - 1]));
      known = static_cast<GroupId>(group_names_.size());
    }
    ops_[v].group = known;
    if (known != no_group) members_.push_back(v);
  }
  const auto key = [&](OpId v) { return static_cast<std::uint32_t>(ops_[v].group) - 1U; };
  std::ranges::stable_sort(members_, {}, key);
  members_begin_.assign(group_names_.size() + 1, 0);
  for (const OpId v : members_) ++members_begin_[key(v) + 1];
  std::partial_sum(members_begin_.begin(), members_begin_.end(), members_begin_.begin());
  return std::move(*this);
}

OpGraph OpGraph::with_free_controls() && {
  free_controls_ = true;
  for (Tensor& t : tensors_)
    if (t.control) t.size = Bytes{};
  if (transfers_.empty()) transfers_.assign(num_tensors(), not_given);
  for (const TensorId t : tensors())
    if (tensors_[t].control) transfers_[t] = Duration::zero();
  return std::move(*this);
}

OpGraph OpGraph::with_transfers(IdVector<TensorId, Duration> transfer) const {
  BAECHI_CHECK(transfer.size() == num_tensors(), "one time per tensor");
  OpGraph g = *this;
  g.transfers_ = std::move(transfer);
  return g;
}

OpGraph OpGraph::without_weights(const IdVector<OpId, bool>& waits) const {
  OpGraph g = *this;
  for (const OpId v : g.ops())
    if (waits[v]) g.ops_[v].persistent = g.cache(v);
  return g;
}

namespace {

/// The p-th of n parts.
Bytes part(Bytes bytes, std::size_t p, std::size_t n) {
  const auto parts = static_cast<std::int64_t>(n);
  return {bytes.count / parts + (static_cast<std::int64_t>(p) < bytes.count % parts ? 1 : 0)};
}

}  // namespace

void for_each_send(CollectiveKind kind, Bytes bytes, std::size_t ranks,
                   const std::function<void(const CollectiveSend&)>& send) {
  const std::size_t n = ranks;
  if (n < 2) return;
  const auto ring = [&](std::size_t steps, std::size_t summed) {
    for (std::size_t k = 0; k < steps; ++k)
      for (std::size_t i = 0; i < n; ++i)
        send({.from = i,
              .after = k,
              .to = (i + 1) % n,
              .receipt = k + 1,
              .size = part(bytes, (i + n - k % n) % n, n),
              .is_summed = k < summed});
  };
  switch (kind) {
    case CollectiveKind::all_reduce:
      return ring(2 * (n - 1), n - 1);
    case CollectiveKind::reduce_scatter:
      return ring(n - 1, n - 1);
    case CollectiveKind::all_gather:
      return ring(n - 1, 0);
    case CollectiveKind::all_to_all:
      for (std::size_t k = 0; k + 1 < n; ++k)
        for (std::size_t i = 0; i < n; ++i) {
          const std::size_t to = (i + k + 1) % n;
          send({.from = i, .after = k, .to = to, .receipt = k + 1, .size = part(bytes, to, n)});
        }
      return;
    case CollectiveKind::broadcast:
      for (std::size_t p = 0; p < n; ++p)
        for (std::size_t i = 0; i + 1 < n; ++i)
          send({.from = i,
                .after = i == 0 ? 0 : p + 1,
                .to = i + 1,
                .receipt = p + 1,
                .size = part(bytes, p, n)});
      return;
    case CollectiveKind::send_recv:
      return send({.from = 0, .after = 0, .to = 1, .receipt = 1, .size = bytes});
  }
}

std::vector<OpId> find_cycle(std::size_t num_ops, std::span<const Edge> edges) {
  using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  pairs.reserve(edges.size());
  for (const Edge& e : edges) pairs.emplace_back(index(e.src), index(e.dst));
  const Graph graph(boost::edges_are_unsorted_multi_pass, pairs.begin(), pairs.end(), num_ops);
  std::vector<std::size_t> component(num_ops);
  boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, graph)));

  // The lowest op with an edge that stays in its component lies on a cycle.
  const auto on_cycle = [&](const auto& p) { return component[p.first] == component[p.second]; };
  std::size_t start = num_ops;
  for (const auto& p : pairs)
    if (on_cycle(p)) start = std::min(start, p.first);
  BAECHI_CHECK(start < num_ops, "no cycle among {} edges", edges.size());

  // Breadth-first from `start`, inside its component, back to `start`.
  std::vector<std::size_t> parent(num_ops, num_ops);
  std::vector<std::size_t> frontier{start};
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const std::size_t u = frontier[i];
    for (auto [e, end] = boost::out_edges(u, graph); e != end; ++e) {
      const std::size_t v = boost::target(*e, graph);
      if (v == start) {
        std::vector<OpId> cycle;
        for (std::size_t w = u; w != start; w = parent[w]) cycle.push_back(static_cast<OpId>(w));
        cycle.push_back(static_cast<OpId>(start));
        std::ranges::reverse(cycle);
        return cycle;
      }
      if (component[v] != component[start] || parent[v] != num_ops) continue;
      parent[v] = u;
      frontier.push_back(v);
    }
  }
  BAECHI_CHECK(false, "op {} is in a strong component of one", start);
  return {};
}

}  // namespace baechi
