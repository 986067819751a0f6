#include "traces/import/chakra/reduce.h"

#include <algorithm>

namespace baechi::chakra {
namespace {

constexpr std::size_t most_nodes = 20'000;

/// Positions in a topological order [nodes]; empty if there is a cycle.
std::vector<std::size_t> order(const std::vector<Wait>& waits, std::size_t nodes) {
  std::vector<std::size_t> open(nodes), position(nodes), ready;
  std::vector<std::vector<std::size_t>> after(nodes);
  for (const Wait& w : waits) {
    ++open[w.after];
    after[w.before].push_back(w.after);
  }
  for (std::size_t v = 0; v < nodes; ++v)
    if (open[v] == 0) ready.push_back(v);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    position[ready[i]] = i;
    for (const std::size_t next : after[ready[i]])
      if (--open[next] == 0) ready.push_back(next);
  }
  if (ready.size() < nodes) position.clear();
  return position;
}

}  // namespace

std::size_t erase_backward(std::vector<Wait>& waits, std::size_t nodes) {
  if (!order(waits, nodes).empty() || nodes == 0) return 0;
  return std::erase_if(waits, [](const Wait& w) { return w.before > w.after; });
}

std::size_t erase_implied(std::vector<Wait>& waits, std::size_t nodes) {
  if (nodes > most_nodes) return 0;
  const std::vector<std::size_t> position = order(waits, nodes);
  if (position.empty()) return 0;
  // Visits readers in topological order and their latest writer first: its predecessors are
  // implied.
  std::ranges::sort(waits, {}, [&](const Wait& w) {
    return std::pair(position[w.after], nodes - position[w.before]);
  });
  const std::size_t words = (nodes + 63) / 64;
  std::vector<std::vector<std::uint64_t>> precede(nodes);
  const auto set_of = [&](std::size_t v) -> std::vector<std::uint64_t>& {
    precede[v].resize(words);
    return precede[v];
  };
  return std::erase_if(waits, [&](const Wait& w) {
    std::vector<std::uint64_t>& before = set_of(w.after);
    const std::uint64_t bit = std::uint64_t{1} << (w.before % 64);
    if ((before[w.before / 64] & bit) != 0 && w.bytes < 0) return true;
    before[w.before / 64] |= bit;
    const std::vector<std::uint64_t>& earlier = set_of(w.before);
    for (std::size_t i = 0; i < words; ++i) before[i] |= earlier[i];
    return false;
  });
}

}  // namespace baechi::chakra
