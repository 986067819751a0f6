/// TensorFlow's graphs and recorded costs, as far as they are read.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace baechi {
class TextFile;
}

namespace baechi::tensorflow {

/// NodeDef.
struct Node {
  std::string name, op;
  std::vector<std::string> inputs{};   ///< "name", "name:1", or "^name": a control
  std::vector<std::string> classes{};  ///< colocation: names of other nodes
  /// Bytes per output by attr _output_shapes; empty if the file has none. -1: not known.
  std::vector<std::int64_t> output_bytes{};
};

/// The costs of one node in RunMetadata; sums over its kernels, if it has some.
struct Cost {
  std::optional<Duration> kernels{};  ///< on a GPU's streams
  Duration own{};                     ///< of the op itself: to op_end_rel, less op_start_rel
  Duration all{};                     ///< to all_end_rel, less op_start_rel
  Bytes temporary{}, persistent{};
  std::map<std::int64_t, std::pair<Bytes, Bytes>> outputs{};  ///< by slot: allocated, requested
  bool recorded = false;  ///< there is a record of the op itself
};
using Costs = std::map<std::string, Cost, std::less<>>;

struct Graph {
  std::vector<Node> nodes;
  std::size_t functions = 0;  ///< in its library, whose nodes are not read
};

/// A GraphDef, or the one in a SavedModel, in protocol buffers or as text.
Graph read_graph(TextFile& file);
/// A RunMetadata, in protocol buffers or as text.
Costs read_costs(TextFile& file);

/// Whether a file with this beginning is a GraphDef or a SavedModel.
bool looks_like_graph(std::string_view beginning);

}  // namespace baechi::tensorflow
