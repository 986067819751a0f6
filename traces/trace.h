/// A trace: an operator graph with its name, source, coverage and notes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/untimed.h"

namespace baechi {

/// How many ops have times and sizes in the source; missing values are zero in the graph. A given
/// zero cannot be told from a missing value and counts as missing.
struct Coverage {
  std::size_t ops = 0;          ///< all ops of the graph
  std::size_t with_time = 0;    ///< ops with a time on at least one device kind
  std::size_t with_bytes = 0;   ///< ops whose outputs all have a size, or that have no outputs
  std::size_t with_memory = 0;  ///< ops with persistent or temporary bytes
};
Coverage coverage(const OpGraph& graph);

/// The machine that a workload was published for.
struct ClusterHint {
  std::size_t accelerators = 0;
  std::size_t cpus = 0;                     ///< cores; they have no memory limit
  Bytes memory{};                           ///< memory limit of each accelerator
  IdVector<TensorId, Duration> transfer{};  ///< time to send each tensor to another device
};

struct Trace {
  OpGraph graph{};
  std::string name{};      ///< the model's name; "" if the source has none
  std::string source{};    ///< who made the trace, from what: free text
  std::string format{};    ///< the importer's or generator's name
  std::int64_t batch = 0;  ///< samples per step; 0 if unknown
  Coverage coverage{};
  Untimed untimed{};
  /// The source measures times, but not in this file: none may be assumed unless the user names a
  /// kind of device.
  bool times_elsewhere = false;
  std::optional<ClusterHint> cluster{};
  /// Assumptions made on import, one line each. A line that begins with "warning: " says why
  /// results may be wrong.
  std::vector<std::string> notes{};
};

/// builder.build(), with `path` put in front of its error messages. Importers end with this call.
OpGraph build_graph(OpGraphBuilder builder, const std::string& path,
                    IdVector<OpId, OpId>* renumbered = nullptr);

}  // namespace baechi
