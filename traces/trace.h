/// A trace: an operator graph with its name, source, coverage and notes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/untimed.h"

namespace baechi {

/// How many ops have times and sizes. Missing values are zero in the graph, so zeros count as
/// missing.
struct Coverage {
  std::size_t ops = 0;          ///< all ops of the graph
  std::size_t with_time = 0;    ///< ops with a time on at least one device type
  std::size_t with_bytes = 0;   ///< ops whose outputs (possibly none) all have a size
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
  std::string source{};    ///< the recorder, its version and device: free text
  std::string format{};    ///< the importer's or generator's name
  std::int64_t batch = 0;  ///< samples per step; 0 if unknown
  Coverage coverage{};
  Untimed untimed{};
  /// Times were measured, but are not in this file: roofline times are used only if the user names
  /// a device type.
  bool times_elsewhere = false;
  std::optional<ClusterHint> cluster{};
  /// Assumptions of the import, one line each. A line that begins with "warning: " says why results
  /// may be wrong.
  std::vector<std::string> notes{};
};

/// builder.build(), with `path` prepended to error messages.
OpGraph build_graph(OpGraphBuilder builder, const std::string& path,
                    IdVector<OpId, OpId>* renumbered = nullptr);

}  // namespace baechi
