#include "traces/import/chakra/nodes.h"

#include <algorithm>
#include <map>

#include "sim/error.h"
#include "traces/format/json.h"
#include "traces/format/wire.h"

namespace baechi::chakra {
namespace {

// Field numbers from et_def.proto of mlcommons/chakra (schema 0.0.4 and 1.0). Attributes are read
// in any integer type, because writers differ.

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t longest_us = 10'000'000'000;

std::optional<std::int64_t> size(std::int64_t n) {
  return n >= 0 && n <= most_bytes ? std::optional(n) : std::nullopt;
}

void set_attribute(Node& node, std::string_view name, std::int64_t value) {
  if (name == "is_cpu_op") node.on_host = value != 0;
  if (name == "comm_type") node.comm_type = value;
  if (name == "comm_size") node.comm_size = size(value);
  if (name == "group_size" && value > 0 && value <= most_ranks) node.group_size = value;
  if (name == "comm_src") node.source = value;
  if (name == "comm_dst") node.destination = value;
  if (name == "comm_tag") node.tag = value;
  if (name == "num_ops") node.operations = size(value);
  if (name == "tensor_size") node.tensor_size = size(value);
}

/// The integers in a text such as "[0, 2]".
std::vector<std::int64_t> numbers_in(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  std::vector<std::int64_t> found;
  for (std::size_t at = 0; (at = text.find_first_of(digits, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(digits, at), text.size());
    found.push_back(parse_number<std::int64_t>(text.substr(at, end - at)).value_or(-1));
    at = end;
  }
  return found;
}

void read_attribute(Wire& wire, Node& node) {
  std::string name, text;
  std::vector<std::int64_t> list;
  std::optional<std::int64_t> number;
  wire.message([&](std::uint32_t field) {
    if (field == 1) name = wire.text();
    if (field == 3 || field == 5) number = std::llround(std::clamp(wire.real(), 0.0, 1e15));
    if (wire.is_varint() && (field == 7 || field == 9 || field == 11 || field == 13 || field == 27))
      number = wire.whole();
    if (wire.is_varint() && (field == 15 || field == 17)) number = wire.zigzag();
    if (field == 8 || field == 10 || field == 12 || field == 14)
      wire.message([&](std::uint32_t values) {
        if (values == 1) wire.each_whole([&](std::int64_t n) { list.push_back(n); });
      });
    if (field == 29) text = wire.text();
  });
  if (number) set_attribute(node, name, *number);
  if (name == "ranks") node.ranks = list.empty() ? numbers_in(text) : list;
  if (name == "pg_name") node.group = text;
}

/// The tensors in a text such as "[[4, 5, 0, 64, 4, 'cuda:0'], 1]": lists of id, storage, offset,
/// elements, bytes per element and device.
std::vector<Tensor> tensors_in(std::string_view text) {
  std::vector<Tensor> found;
  std::array<std::int64_t, 5> numbers{};
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '[') {
      count = 0;
      ++at;
    } else if ((text[at] >= '0' && text[at] <= '9') || text[at] == '-') {
      std::int64_t n = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), n);
      if (count < numbers.size()) numbers[count] = error == std::errc{} ? n : -1;
      ++count;
      at = std::max(at + 1, static_cast<std::size_t>(end - text.data()));
    } else if (text[at] == '\'' || text[at] == '"') {
      const std::size_t end = text.find(text[at], at + 1);
      const auto [id, storage, offset, elements, width] = numbers;
      if (count == numbers.size() && elements >= 0 && width > 0 && width <= 64 &&
          elements <= most_bytes / width)
        found.emplace_back(id, elements * width);
      count = numbers.size() + 1;
      at = end == std::string_view::npos ? text.size() : end + 1;
    } else {
      ++at;
    }
  }
  return found;
}

std::vector<Tensor> read_tensors(Wire& wire) {
  std::vector<Tensor> tensors;
  wire.message([&](std::uint32_t field) {
    if (field == 1) tensors = tensors_in(wire.bytes(std::size_t{16} << 20U));
  });
  return tensors;
}

Duration microseconds(Wire& wire, std::int64_t us) {
  if (us < 0 || us > longest_us)
    wire.broken("a duration of at most ten thousand seconds, in microseconds, is expected");
  return std::chrono::microseconds(us);
}

void read_node_field(Wire& wire, std::uint32_t field, Node& node) {
  const auto ids = [&](std::vector<std::uint64_t>& list) {
    wire.each_whole([&](std::int64_t n) { list.push_back(static_cast<std::uint64_t>(n)); });
  };
  if (field == 1) node.id = wire.varint();
  if (field == 2) node.name = wire.text();
  if (field == 3) {
    const std::uint64_t type = wire.varint();
    if (type > 7) wire.broken(fmt::format("a node of type {}: types are 1 to 7", type));
    node.type = static_cast<NodeType>(type);
  }
  if (field == 4) ids(node.controls);
  if (field == 5) ids(node.data);
  if (field == 7) node.duration = microseconds(wire, wire.whole());
  if (field == 8) node.inputs = read_tensors(wire);
  if (field == 9) node.outputs = read_tensors(wire);
  if (field == 10) read_attribute(wire, node);
}

Nodes read_protocol_buffers(TextFile& file) {
  Nodes all;
  Wire wire(file);
  wire.delimited([&](std::uint32_t field) {
    if (field == 1) all.schema = wire.text();
    if (field != 2) return;
    std::string name, text;
    wire.message([&](std::uint32_t f) {
      if (f == 1) name = wire.text();
      if (f == 29) text = wire.text();
    });
    if (name == "schema") all.schema = text;
  });
  for (;;) {
    Node node;
    const std::uint64_t at = wire.position();
    if (!wire.delimited([&](std::uint32_t field) { read_node_field(wire, field, node); })) break;
    if (node.type == NodeType::invalid)
      throw InputError(fmt::format("{}: byte {}: node {} '{}' has no type", file.path(), at + 1,
                                   node.id, node.name));
    all.nodes.push_back(std::move(node));
  }
  return all;
}

/// A key in lower case without '_': writers of JSON spell "ctrlDeps", "data_deps", "NodeType".
std::string normalized(std::string_view key) {
  std::string word = lower(key);
  std::erase(word, '_');
  return word;
}

void read_json_node(JsonFile& file, Json value, Nodes& all) {
  const std::size_t offset = value.offset();
  if (!value.is_object()) return value.is_not("an object");
  Node node;
  const auto ids = [](Json list, std::vector<std::uint64_t>& to) {
    list.list([&](Json id) { to.push_back(static_cast<std::uint64_t>(id.whole())); });
  };
  value.entries([&](std::string_view key, Json v) {
    const std::string word = normalized(key);
    if (word == "id") {
      node.id = static_cast<std::uint64_t>(v.whole());
    } else if (word == "name") {
      node.name = v.string();
    } else if (word == "nodetype" || word == "type") {
      const std::int64_t type = v.whole();
      if (type < 1 || type > 7) return v.mistake("types of nodes are 1 to 7");
      node.type = static_cast<NodeType>(type);
    } else if (word == "ctrldeps") {
      ids(v, node.controls);
    } else if (word == "datadeps") {
      ids(v, node.data);
    } else if (word == "runtime" || word == "durationmicros") {
      const std::int64_t us = v.whole();
      if (us > longest_us) return v.mistake("more than ten thousand seconds");
      node.duration = std::chrono::microseconds(us);
    } else if (word == "iscpuop") {
      node.on_host = v.boolean();
    } else if (word == "ranks") {
      if (v.token().starts_with('"'))
        node.ranks = numbers_in(v.string());
      else
        v.list([&](Json rank) { node.ranks.push_back(rank.whole()); });
    } else if (word == "pgname" && v.token().starts_with('"')) {
      node.group = v.string();
    } else if (const auto n = parse_number<std::int64_t>(v.token())) {
      set_attribute(node, key, *n);
    }
  });
  if (node.type == NodeType::invalid)
    file.mistake(offset, fmt::format("node {} '{}' has no type", node.id, node.name));
  all.nodes.push_back(std::move(node));
}

Nodes read_json(TextFile& text) {
  Nodes all;
  const std::string whole = text.rest();
  JsonFile file(text.path(), whole);
  bool found = false;
  file.root().entries([&](std::string_view key, Json v) {
    if (key == "schema" && v.token().starts_with('"')) all.schema = v.string();
    if (key != "workload_graph") return;
    found = true;
    v.list([&](Json node) { read_json_node(file, node, all); });
  });
  if (!found) file.mistake(0, "no 'workload_graph': not a Chakra execution trace");
  file.finish();
  return all;
}

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

Nodes read_nodes(TextFile& file) {
  Nodes all = looks_like_json(file.beginning()) ? read_json(file) : read_protocol_buffers(file);
  std::erase_if(all.nodes, [&](const Node& node) {
    if (node.type != NodeType::metadata) return false;
    all.metadata.insert(node.id);
    return true;
  });
  std::ranges::stable_sort(all.nodes, {}, &Node::id);
  std::map<std::uint64_t, const Node*> by_id;
  for (const Node& node : all.nodes)
    if (const auto [other, added] = by_id.emplace(node.id, &node); !added)
      throw InputError(fmt::format("{}: two nodes have the id {}: '{}' and '{}'", file.path(),
                                   node.id, other->second->name, node.name));
  if (all.nodes.empty())
    throw InputError(fmt::format("{}: no node in it: not a Chakra execution trace", file.path()));
  return all;
}

bool looks_like_json(std::string_view beginning) {
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && beginning[first] == '{' &&
         beginning.find("\"workload_graph\"") != std::string_view::npos;
}

/// Expects a length-delimited metadata message whose first field is a version or an attribute, then
/// a node whose first field is its id or name.
bool looks_like_protocol_buffers(std::string_view beginning) {
  if (beginning.empty()) return false;
  std::size_t at = 0;
  const auto varint = [&] {
    std::size_t value = 0;
    for (unsigned shift = 0; at < beginning.size() && shift < 28; shift += 7) {
      const auto byte = static_cast<unsigned char>(beginning[at++]);
      value |= static_cast<std::size_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  const std::size_t metadata = varint();
  if (metadata > 0 &&
      (at >= beginning.size() || (beginning[at] != '\x0a' && beginning[at] != '\x12')))
    return false;
  if (metadata > 0 && at + 1 < beginning.size() &&
      static_cast<unsigned char>(beginning[at + 1]) + std::size_t{2} > metadata)
    return false;
  at += metadata;
  const std::size_t node = varint();
  return node > 2 && at + 1 < beginning.size() &&
         (beginning[at] == '\x08' || beginning[at] == '\x12');
}

std::size_t erase_backward(std::vector<Wait>& waits, std::size_t nodes) {
  if (!order(waits, nodes).empty()) return 0;
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
