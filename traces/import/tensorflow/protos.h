/// The fields of TensorFlow's graphs and recorded costs that the importer uses.
#pragma once
#include <map>
#include <vector>

#include "sim/units.h"

namespace baechi {
class TextFile;
}

namespace baechi::tensorflow {

/// NodeDef.
struct Node {
  std::string name, op;
  std::vector<std::string> inputs{};   ///< "name", "name:1", or "^name" for a control input
  std::vector<std::string> classes{};  ///< colocation: names of other nodes
  /// Bytes per output from attr _output_shapes, -1 if unknown; empty if the file has none.
  std::vector<std::int64_t> output_bytes{};
};

/// The costs of one node in RunMetadata.
struct Cost {
  std::optional<Duration> kernels{};  ///< sum over its kernels on GPU streams
  Duration own{};                     ///< op_end_rel - op_start_rel
  Duration all{};                     ///< all_end_rel - op_start_rel
  Bytes temporary{}, persistent{};
  std::map<std::int64_t, std::pair<Bytes, Bytes>> outputs{};  ///< by slot: allocated, requested
  bool recorded = false;  ///< whether the op has a record besides its kernels
};
using Costs = std::map<std::string, Cost, std::less<>>;

struct Graph {
  std::vector<Node> nodes;
  std::size_t functions = 0;  ///< number of library functions, whose nodes are not read
};

/// Reads a GraphDef or SavedModel, binary or text.
Graph read_graph(TextFile& file);
/// Reads a RunMetadata, binary or text.
Costs read_costs(TextFile& file);

/// Whether a file with this beginning is a GraphDef or a SavedModel.
bool looks_like_graph(std::string_view beginning);

}  // namespace baechi::tensorflow
