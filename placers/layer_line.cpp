#include "placers/layer_line.h"

namespace baechi {
Bytes LayerNeeds::transient(std::size_t first, std::size_t last) const {
  const auto inside = [&](OpId v) { return layers_.of[v] >= first && layers_.of[v] < last; };
  std::map<OpId, Bytes> freed;  // after this op has run
  Bytes held, most;
  for (const OpId v : graph_.ops()) {
    if (!inside(v)) continue;
    for (const EdgeId e : graph_.in_edges(v)) {  // copies of tensors from other devices
      const TensorId t = graph_.edge(e).tensor;
      if (inside(graph_.edge(e).src)) continue;
      OpId begin = no_op, end{};
      for (const EdgeId r : graph_.readers(t))
        if (const OpId u = graph_.edge(r).dst; inside(u)) begin = std::min(begin, u), end = u;
      if (begin != v) continue;
      held += graph_.tensor(t).copied();
      freed[end] += graph_.tensor(t).copied();
    }
    for (const TensorId t : graph_.outputs(v)) {
      OpId end = v;
      for (const EdgeId r : graph_.readers(t))
        if (inside(graph_.edge(r).dst)) end = std::max(end, graph_.edge(r).dst);
      held += graph_.tensor(t).held();
      freed[end] += graph_.tensor(t).held();
    }
    most = std::max(most, held + graph_.op(v).temporary);
    if (const auto done = freed.find(v); done != freed.end()) held = held - done->second;
  }
  return most;
}

Bytes Line::need(std::size_t d, std::size_t first, std::size_t last) const {
  if (first == last) return {};
  Bytes sum = devices_[d].besides + transient_(first, last);
  for (std::size_t layer = first; layer < last; ++layer) sum += devices_[d].held[layer];
  return sum;
}

std::vector<std::size_t> Line::filled() const {
  std::vector<std::size_t> first{0};
  for (std::size_t d = 0; d + 1 < devices_.size(); ++d) {
    std::size_t last = first.back();
    while (last < layers_ && need(d, first.back(), last + 1) <= devices_[d].memory) ++last;
    first.push_back(last);
  }
  first.push_back(layers_);
  return first;
}

Bytes Line::lacking() const {
  const std::size_t last = devices_.size() - 1;
  return need(last, filled()[last], layers_) - devices_[last].memory;
}

std::optional<std::vector<std::size_t>> Line::divided(Duration hop) const {
  struct Best {
    Duration sum{std::numeric_limits<std::int64_t>::max() / 2}, longest{};
    std::size_t first = 0;  // layer of the last device
    auto key() const { return std::pair(sum, longest); }
  };
  const std::size_t count = devices_.size();
  std::vector best(count + 1,
                   std::vector<Best>(layers_ + 1));  // by number of first devices, of first layers
  const Best none;
  best[0][0].sum = {};
  for (std::size_t d = 0; d < count; ++d)
    for (std::size_t first = 0; first <= layers_; ++first) {
      const Best& before = best[d][first];
      if (before.sum == none.sum) continue;
      Duration own{};
      for (std::size_t last = first; last <= layers_; ++last) {
        if (last > first) own += devices_[d].times[last - 1];
        if (need(d, first, last) > devices_[d].memory) break;
        const bool hops = first > 0 && last > first;
        const Best next{before.sum + own + (hops ? hop : Duration{}), std::max(before.longest, own),
                        first};
        if (next.key() <= best[d + 1][last].key()) best[d + 1][last] = next;
      }
    }
  if (best[count][layers_].sum == none.sum) return std::nullopt;
  std::vector<std::size_t> first(count + 1, layers_);
  for (std::size_t d = count; d > 0; --d) first[d - 1] = best[d][first[d]].first;
  return first;
}

}  // namespace baechi
