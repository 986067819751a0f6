#include <cmath>

#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/format/json_string.h"
#include "traces/importer.h"

namespace baechi {
namespace {

// A profile is lines of two kinds, times in ms and sizes in bytes:
//   node1 -- Conv2d(3, 64, ...) -- forward_compute_time=1.5, backward_compute_time=3.0,
//     activation_size=1024.0, parameter_size=256.0             (one line; may end ", stage_id=0" or
//   <tab>node1 -- node2                                         " -- stage_id=0")
// Source: PipeDream (Narayanan et al., SOSP 2019) and its repository msr-fiddle/pipedream.
//
// Decisions:
// - A node becomes a forward op `node1` and, if training, a backward op `node1_grad` in the same
//   colocation group.
// - The forward op holds the parameters, times the option `parameter_copies`.
// - The forward op writes the activation. Several activations, "[a; b]", become one tensor of their
//   total size, because edges do not state which activation they carry.
// - The backward op reads the activation, and one gradient of the same size from each reader of the
//   activation.

/// Removes and returns the text before `separator` (all if there is none); removes the separator.
std::string_view take(std::string_view& text, std::string_view separator) {
  const std::size_t end = text.find(separator);
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + separator.size());
  return piece;
}

constexpr std::array<std::string_view, 5> value_names{"forward_compute_time",
                                                      "backward_compute_time", "activation_size",
                                                      "parameter_size", "stage_id"};
enum Value : std::uint8_t { forward_time, backward_time, activation, parameters, stage, values };

/// A number >= 0 and below 2^62.
std::optional<double> one_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && *value >= 0.0 && *value < 0x1p62 ? value : std::nullopt;
}

/// A number, or a list "[a; b]" of numbers, which counts as their sum, at most 2^62.
std::optional<double> number(std::string_view text) {
  if (text.size() < 2 || !text.starts_with('[') || !text.ends_with(']')) return one_number(text);
  std::string_view items = text.substr(1, text.size() - 2);
  double sum = 0.0;
  while (!items.empty()) {
    const auto item = one_number(trimmed(take(items, ";")));
    if (!item) return std::nullopt;
    sum = std::min(sum + *item, 0x1p62);
  }
  return sum;
}

class PipedreamReader {
 public:
  PipedreamReader(TextFile& file, Options& options)
      : path_(file.path()),
        text_(file.rest()),
        training_(options.get("training", true, "add a backward op for every forward op")),
        copies_(options.get("parameter_copies", training_ ? 3.0 : 1.0,
                            "copies of the parameters in device memory: 3 is weights, gradients "
                            "and momentum, 4 is Adam, 1 is the default if not training")) {}

  Trace read() {
    require_utf8(path_, text_);
    std::string_view text = text_;
    while (!text.empty()) {
      const std::string_view line = take(text, "\n");
      if (trimmed(line).empty()) continue;
      if (line.front() == '\t')
        edge_lines_.push_back(line);
      else
        read_node(line);
    }
    for (Node& node : nodes_) {
      node.output = builder_.add_tensor(node.forward, node.activation);
      if (training_) builder_.add_edge(node.output, node.backward);
    }
    for (const std::string_view line : edge_lines_) read_edge(line);
    std::ranges::sort(mistakes_);
    Mistakes all;
    for (auto& [offset, what] : mistakes_) all.add(std::move(what));
    if (unlisted_ > 0) all.add(fmt::format("{}: and {} more", path_, unlisted_));
    all.throw_if_any();
    Trace trace{.source = "msr-fiddle/pipedream"};
    trace.graph = build_graph(std::move(builder_), path_);
    return trace;
  }

 private:
  struct Node {
    OpId forward{}, backward{};
    Bytes activation{};
    TensorId output{};
  };

  void read_node(std::string_view line) {
    constexpr std::string_view separator = " -- ";
    std::string_view rest = line;
    const std::string_view name = trimmed(take(rest, separator));
    // A description may contain the separator: the last one before the values is used.
    const std::size_t values_at = rest.rfind(std::string(separator) + "forward_compute_time=");
    if (name.empty() || values_at == std::string_view::npos) {
      mistake(line,
              "neither 'NODE -- DESCRIPTION -- forward_compute_time=..., ...' nor, after a tab, "
              "'NODE -- NODE'");
      return;
    }
    const std::string_view description = rest.substr(0, values_at);
    std::string_view text = rest.substr(values_at + separator.size());
    std::array<double, values> value{};
    const std::size_t stage_at = text.find(separator);
    read_values(text.substr(0, stage_at), value);
    if (stage_at != std::string_view::npos &&
        !trimmed(text.substr(stage_at + separator.size())).starts_with("stage_id="))
      mistake(text.substr(stage_at), "only 'stage_id=...' may follow the values");
    const bool repeated = builder_.find(name).has_value();
    if (repeated) mistake(line, fmt::format("two nodes are named '{}'", name));

    const std::string_view kind = trimmed(description.substr(0, description.find('(')));
    Node node;
    node.activation = {std::llround(std::ceil(value[activation]))};
    node.forward = builder_.add_op({.name = name,
                                    .kind = kind,
                                    .compute = time(value[forward_time], line),
                                    .persistent = {static_cast<std::int64_t>(std::min(
                                        std::ceil(value[parameters] * copies_), 0x1p62))}});
    node_of_.push_back(static_cast<std::uint32_t>(nodes_.size()));
    if (training_) {
      const std::string gradient = fmt::format("{}_grad", name);
      if (!repeated && builder_.find(gradient))
        mistake(line, fmt::format("two nodes are named '{}'", gradient));
      node.backward = builder_.add_op({.name = gradient,
                                       .kind = kind,
                                       .compute = time(value[backward_time], line),
                                       .phase = Phase::backward});
      node_of_.push_back(static_cast<std::uint32_t>(nodes_.size()));
      builder_.set_forward(node.backward, node.forward);
      builder_.colocate(node.forward, name);
      builder_.colocate(node.backward, name);
    }
    nodes_.push_back(node);
  }

  void read_edge(std::string_view line) {
    std::string_view rest = line;
    const std::string_view from = trimmed(take(rest, " -- "));
    const std::string_view to = trimmed(rest);
    if (from.empty() || to.empty()) {
      mistake(line, "not an edge 'NODE -- NODE'");
      return;
    }
    const Node* const src = node_called(from);
    const Node* const dst = node_called(to);
    if (src == nullptr || dst == nullptr) return;
    if (!edges_.emplace(src->forward, dst->forward).second) mistake(line, "a duplicate edge");
    builder_.add_edge(src->output, dst->forward);
    if (training_)
      builder_.add_edge(builder_.add_tensor(dst->backward, src->activation), src->backward);
  }

  void read_values(std::string_view text, std::array<double, values>& found) {
    const std::string_view line = text;
    std::array<bool, values> seen{};
    while (!text.empty()) {
      const std::string_view item = trimmed(take(text, ", "));
      std::string_view value = item;
      const std::string_view name = trimmed(take(value, "="));
      const auto it = std::ranges::find(value_names, name);
      if (it == value_names.end()) {
        const std::vector<std::string> known(value_names.begin(), value_names.end());
        mistake(item, fmt::format("a node has no value '{}'{} (values: {})", name.substr(0, 60),
                                  did_you_mean(name, known), fmt::join(known, ", ")));
        continue;
      }
      const auto key = static_cast<std::size_t>(it - value_names.begin());
      if (seen[key]) mistake(item, fmt::format("two values {}", name));
      seen[key] = true;
      const auto n = number(trimmed(value));
      if (!n)
        mistake(item,
                fmt::format("{}: '{}' is not a number from 0 to 4.6e18 or a list [a; b] of such",
                            name, value.substr(0, 40)));
      found[key] = n.value_or(0.0);
    }
    for (std::size_t key = 0; key < stage; ++key)
      if (!seen[key]) mistake(line, fmt::format("a node needs a value {}", value_names[key]));
  }

  Duration time(double ms, std::string_view line) {
    const auto time = from_us(ms * 1e3);
    if (!time) mistake(line, fmt::format("{} ms is not a time below 146 years", ms));
    return time.value_or(Duration{});
  }

  const Node* node_called(std::string_view name) {
    const auto op = builder_.find(name);
    if (op && nodes_[node_of_[*op]].forward == *op) return &nodes_[node_of_[*op]];
    mistake(name, fmt::format("no node '{}'", name.substr(0, 60)));
    return nullptr;
  }

  /// Records a mistake at `where`, which points into text_.
  void mistake(std::string_view where, std::string_view what) {
    constexpr std::size_t most_listed = 20;
    if (mistakes_.size() == most_listed) {
      ++unlisted_;
      return;
    }
    const auto offset = static_cast<std::size_t>(where.data() - text_.data());
    const std::string_view before = std::string_view(text_).substr(0, offset);
    const std::size_t line_start = before.rfind('\n') + 1;  // 0 on the first line: npos + 1
    mistakes_.emplace_back(offset,
                           fmt::format("{}:{}:{}: {}", path_, 1 + std::ranges::count(before, '\n'),
                                       1 + offset - line_start, what));
  }

  std::string path_, text_;
  bool training_;
  double copies_;
  OpGraphBuilder builder_;
  std::vector<Node> nodes_;
  IdVector<OpId, std::uint32_t> node_of_;  // node of each forward and backward op
  std::vector<std::string_view> edge_lines_;
  std::set<std::pair<OpId, OpId>> edges_;
  std::vector<std::pair<std::size_t, std::string>> mistakes_;  // offset in the text, message
  std::size_t unlisted_ = 0;
};

}  // namespace

bool looks_like_pipedream(std::string_view beginning) {
  return beginning.find(" -- forward_compute_time=") != std::string_view::npos;
}

Trace read_pipedream(TextFile& file, Options& options) {
  return PipedreamReader(file, options).read();
}

}  // namespace baechi
