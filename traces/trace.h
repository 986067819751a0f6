/// A graph with what its file says about it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// How much of a graph its source really knew; the rest is zero. A known zero counts as unknown.
struct Coverage {
  std::size_t ops = 0;
  std::size_t with_time = 0;    ///< on some device kind
  std::size_t with_bytes = 0;   ///< all outputs have a size; or there are none
  std::size_t with_memory = 0;  ///< persistent or temporary
};
Coverage coverage(const OpGraph& graph);

/// The machine a workload was published for.
struct ClusterHint {
  std::size_t accelerators = 0;
  std::size_t cpus = 0;                     ///< cores, without a memory limit
  Bytes memory{};                           ///< of each accelerator
  IdVector<TensorId, Duration> transfer{};  ///< of each tensor between devices there
};

struct Trace {
  OpGraph graph{};
  std::string name{};      ///< of the model; "" if the source has none
  std::string source{};    ///< who made it, from what: free text
  std::string format{};    ///< the importer's or generator's name
  std::int64_t batch = 0;  ///< samples per step; 0 if unknown
  Coverage coverage{};
  std::optional<ClusterHint> cluster{};
  std::vector<std::string> notes{};  ///< what the importer had to decide, one line each
};

/// What an importer ends with: builder.build(), whose errors then begin with `path`.
OpGraph build_graph(OpGraphBuilder builder, const std::string& path,
                    IdVector<OpId, OpId>* renumbered = nullptr);

}  // namespace baechi
