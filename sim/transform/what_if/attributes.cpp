#include "sim/transform/what_if/attributes.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"
#include "sim/transform/what_if/copying.h"

namespace baechi::what_if {

Bytes Amount::of(Bytes whole) const {
  return fixed +
         Bytes{static_cast<std::int64_t>(std::ceil(share * static_cast<double>(whole.count)))};
}

std::optional<Amount> read_amount(Options& o, const std::string& key, std::string_view help) {
  constexpr double most = 1000.0;
  const std::string text = o.get(key, "", help);
  if (text.empty()) return std::nullopt;
  if (text.ends_with('x')) {
    const auto share = parse_number<double>(std::string_view(text).substr(0, text.size() - 1));
    if (share && *share >= 0.0 && *share <= most) return Amount{.share = *share};
  } else if (const auto bytes = parse_bytes(text)) {
    return Amount{.fixed = *bytes};
  }
  o.mistake(key,
            fmt::format("'{}' is neither a size such as '4 MB' nor a share such as '0.25x'", text));
  return std::nullopt;
}

namespace {

/// Changes the measured transfer times of `tensors`; a tensor without one gets `changed(0)`.
OpGraph with_transfers(const OpGraph& graph, const IdVector<TensorId, bool>& tensors,
                       const std::function<Duration(Duration)>& changed) {
  IdVector<TensorId, Duration> times(graph.num_tensors(), Duration{-1});
  for (const TensorId t : graph.tensors()) {
    const auto measured = graph.measured_transfer(t);
    if (measured) times[t] = *measured;
    if (tensors[t]) times[t] = changed(measured.value_or(Duration{}));
  }
  return graph.with_transfers(std::move(times));
}

}  // namespace

std::optional<Where> read_where(Options& o, const std::string& key, std::string_view help) {
  const Options::Value* given = o.raw(key, help);
  if (given == nullptr) return std::nullopt;
  try {
    return Where::read(given);
  } catch (const InputError& e) {
    o.mistake(key, e.what());
    return std::nullopt;
  }
}

IdVector<TensorId, bool> tensors_of(const Scope& scope, const Selection& selected,
                                    const std::optional<Where>& to) {
  const OpGraph& graph = scope.graph();
  const Selection readers = to ? to->select(scope) : Selection(graph.num_ops(), true);
  IdVector<TensorId, bool> tensors(graph.num_tensors());
  for (const TensorId t : graph.tensors()) {
    const Tensor& tensor = graph.tensor(t);
    if (tensor.control || !selected[tensor.producer]) continue;
    tensors[t] = !to || std::ranges::any_of(graph.readers(t), [&](EdgeId e) {
      return bool{readers[graph.edge(e).dst]};
    });
  }
  return tensors;
}

Change with_attributes(const Scope& scope, const Selection& selected, const Attributes& changed) {
  const OpGraph& given = scope.graph();
  const IdVector<TensorId, bool> tensors = tensors_of(scope, selected, changed.to);
  const OpGraph graph = changed.transfer ? with_transfers(given, tensors, changed.transfer) : given;
  Copying copying(graph);
  copying.respec = [&](OpId v, OpSpec& spec) {
    if (!selected[v]) return;
    if (changed.weights) spec.persistent = changed.weights(spec.persistent);
    if (changed.workspace) spec.temporary = changed.workspace(spec.temporary);
    if (changed.lane) {
      if (graph.collective_of(v) != no_collective)
        throw InputError(
            fmt::format("'{}' is a member of a collective: its lane stays", graph.name(v)));
      spec.lane = *changed.lane;
    }
  };
  if (changed.time)
    copying.retime = [&](OpId v, Duration time, std::size_t) {
      return selected[v] && graph.collective_of(v) == no_collective ? changed.time(time) : time;
    };
  if (changed.flops || changed.traffic)
    copying.rework = [&](OpId v, OpWork work) {
      if (!selected[v]) return work;
      if (changed.flops) work.flops = changed.flops(work.flops);
      if (changed.traffic) {
        const Bytes before = work.traffic;
        work.traffic = changed.traffic(before);
        if (work.weights > Bytes{})  // in proportion
          work.weights = static_cast<double>(work.traffic.count) /
                         static_cast<double>(before.count) * work.weights;
      }
      return work;
    };
  if (changed.bytes) {
    copying.resize = [&](TensorId t) {
      const Bytes size = graph.tensor(t).size;
      return tensors[t] ? changed.bytes(size) : size;
    };
    copying.copy().change_collectives(
        [&](const Collective& c) { return selected[c.first] ? changed.bytes(c.bytes) : c.bytes; });
  }
  copying.ops();
  copying.edges();
  return std::move(copying).built();
}

}  // namespace baechi::what_if
