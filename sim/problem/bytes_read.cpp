#include "sim/problem/bytes_read.h"

#include <algorithm>
#include <vector>

namespace baechi {

Bytes bytes_read(const OpGraph& graph, OpId v) {
  std::vector<TensorId> read;
  for (const EdgeId e : graph.in_edges(v)) read.push_back(graph.edge(e).tensor);
  std::ranges::sort(read);
  const auto repeated = std::ranges::unique(read);
  read.erase(repeated.begin(), repeated.end());
  Bytes sum;
  for (const TensorId t : read) sum += std::min(graph.tensor(t).held(), graph.tensor(t).copied());
  return sum;
}

}  // namespace baechi
