/// The nodes of a Chakra execution trace, as stored in the file; transitive reduction of their
/// dependencies.
#pragma once
#include <set>
#include <utility>
#include <vector>

#include "sim/units.h"

namespace baechi {
class TextFile;
}

namespace baechi::chakra {

/// NodeType of et_def.proto.
enum class NodeType : std::uint8_t {
  invalid,
  metadata,
  memory_load,
  memory_store,
  compute,
  send,
  receive,
  collective,
};

/// Id and bytes of an input or output tensor.
using Tensor = std::pair<std::int64_t, std::int64_t>;

struct Node {
  std::uint64_t id = 0;
  std::string name, group;  ///< group: pg_name
  NodeType type = NodeType::invalid;
  Duration duration{};
  std::vector<std::uint64_t> data, controls;  ///< ids of the nodes that it waits for
  std::vector<Tensor> inputs, outputs;        ///< where the file states them
  bool on_host = false;                       ///< is_cpu_op
  std::vector<std::int64_t> ranks{};          ///< of a collective: its group, where that is listed
  std::optional<std::int64_t> group_size{};   ///< of a collective
  /// comm_size: bytes of one rank's input.
  std::optional<std::int64_t> comm_type, comm_size, source, destination, tag, operations,
      tensor_size;
};

struct Nodes {
  std::vector<Node> nodes;           ///< by id
  std::string schema;                ///< "1.0.1"; "" if not stated
  std::set<std::uint64_t> metadata;  ///< ids of nodes of type METADATA, which are not in `nodes`
};

/// Reads length-delimited protocol buffers, or the JSON that Chakra's feeder reads. Throws
/// InputError with the byte, or line and column, on malformed input, duplicate ids and nodes
/// without a type.
Nodes read_nodes(TextFile& file);

bool looks_like_protocol_buffers(std::string_view beginning);
bool looks_like_json(std::string_view beginning);

struct Wait {
  std::size_t before = 0, after = 0;
  std::int64_t bytes = -1;  ///< read by `after`; -1: a control dependency
};

/// If the dependencies have a cycle, as in some published traces: erases dependencies on nodes with
/// a higher number, and returns their count. Nodes are numbered in order of their start.
std::size_t erase_backward(std::vector<Wait>& waits, std::size_t nodes);

/// Erases control dependencies that are implied by the others, and returns their number. Erases
/// none if there is a cycle, or if there are more than 20,000 nodes: the bit sets of predecessors
/// would take too much memory.
std::size_t erase_implied(std::vector<Wait>& waits, std::size_t nodes);

}  // namespace baechi::chakra
