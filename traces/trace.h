/// A trace: an operator graph with its name, source, coverage and notes.
#pragma once
#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

/// Ops that compute but have neither a time nor known work; importers count them. A trace with such
/// ops is only placed if the user accepts them.
struct Untimed {
  std::size_t ops = 0;
  std::string first{};  ///< the first one, and why: "MatMul 'fc': unknown shape"
  /// What would give them times: "a file with shapes (onnx.shape_inference)".
  std::string instead{};
  bool accepted = false;  ///< the user lets them take no time

  void add(std::string_view kind, std::string_view op, std::string_view why) {
    if (++ops == 1) first = fmt::format("{} '{}': {}", kind, op, why);
  }
  /// Throws InputError with `source` as the place if there are such ops among `all` ops, unless
  /// accepted.
  void refuse(std::string_view source, std::size_t all) const;
};

/// Declares the option `untimed` of an importer.
Untimed no_untimed_ops(Options& options, std::string_view instead);

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

/// Adds a note on `count` things, its first argument, unless there are none.
template <class Count, class... More>
void note_count(std::vector<std::string>& notes, const Count& count,
                fmt::format_string<const Count&, const More&...> text, const More&... more) {
  if (count > 0) notes.push_back(fmt::format(text, count, more...));
}

/// builder.build(), with `path` prepended to error messages.
OpGraph build_graph(OpGraphBuilder builder, const std::string& path,
                    IdVector<OpId, OpId>* renumbered = nullptr);

/// Totals over a graph's ops; `temporary` is the maximum. Times are those of the first device type;
/// an op without one counts as 0.
struct TraceTotals {
  Duration compute{};
  Bytes outputs{}, persistent{}, temporary{}, cache{};
  std::size_t without_time = 0;
};
TraceTotals totals(const OpGraph& graph);

/// Warnings about missing facts, without which a simulation is meaningless.
std::vector<std::string> warnings(const Trace& trace);

}  // namespace baechi
