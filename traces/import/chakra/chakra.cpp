#include <tuple>

#include "traces/format/compressed_file.h"
#include "traces/import/chakra/nodes.h"
#include "traces/import/rank_files.h"
#include "traces/importer.h"

namespace baechi::chakra {
namespace {

// Decisions:
// - A node is an op: in lane host if the host ran it while a GPU is present, in lane comm if it
//   communicates, in lane copy if it loads or stores.
// - A node waits for its data_deps and ctrl_deps. A dependency carries a tensor if the reader lists
//   an output of the writer, or if the file lists no tensors and the writer has a tensor_size.
//   Other dependencies are control edges; those implied by others are removed.
// - The n-th collective of a kind in a group, with a size, is one collective of all ranks. A send
//   and a receive with the same source, destination and tag are one message. Nodes without a size
//   or a partner keep their recorded time.

struct Rank {
  std::string label;  ///< "rank1/"; "" if there is one
  Nodes trace;
  std::vector<OpId> ids{};  ///< [trace.nodes]
};

std::optional<CollectiveKind> kind_of(const Node& node) {
  if (node.type != NodeType::collective || !node.comm_type || !node.comm_size) return std::nullopt;
  switch (*node.comm_type) {  // CollectiveCommType of et_def.proto
    case 0:
      return CollectiveKind::all_reduce;
    case 2:
      return CollectiveKind::all_gather;
    case 5:
      return CollectiveKind::broadcast;
    case 6:
      return CollectiveKind::all_to_all;
    case 7:
    case 8:
      return CollectiveKind::reduce_scatter;
    default:
      return std::nullopt;
  }
}

bool communicates(const Node& node) {
  return node.type == NodeType::send || node.type == NodeType::receive ||
         node.type == NodeType::collective;
}

std::string kind_name(const Node& node) {
  const std::string& name = node.name;
  if (node.type == NodeType::send) return "Send";
  if (node.type == NodeType::receive) return "Receive";
  if (node.type == NodeType::memory_load) return "Load";
  if (node.type == NodeType::memory_store) return "Store";
  const std::size_t end = name.find_first_of("(<");
  std::string_view short_name = std::string_view(name).substr(0, end);
  if (const std::size_t colons = short_name.rfind("::"); colons != std::string_view::npos)
    short_name.remove_prefix(colons + 2);
  if (short_name.starts_with("void ")) short_name.remove_prefix(5);
  return std::string(short_name.substr(0, 60));
}

/// Bytes that `to` reads of `from`; nullopt for a control dependency.
std::optional<std::int64_t> bytes_read(const Node& from, const Node& to) {
  if (!from.outputs.empty() && !to.inputs.empty()) {
    std::int64_t bytes = 0;
    for (const Tensor& out : from.outputs)
      if (std::ranges::find(to.inputs, out.first, &Tensor::first) != to.inputs.end())
        bytes += out.second;
    return bytes > 0 ? std::optional(bytes) : std::nullopt;
  }
  return from.outputs.empty() ? from.tensor_size : std::nullopt;
}

class ChakraGraphBuilder {
 public:
  ChakraGraphBuilder(std::vector<Rank>& ranks, std::uint32_t world, Untimed& untimed)
      : ranks_(ranks), world_(world), untimed_(untimed) {}

  OpGraph make(const std::string& path, Trace& trace) {
    match_communication();
    for (Rank& rank : ranks_) add_rank(rank);
    for (const Exchange& exchange : collectives_) {
      std::vector<OpId> members;
      for (const auto& [rank, node] : exchange.members) members.push_back(ranks_[rank].ids[node]);
      // A group of some of the files' ranks is complete; a group of all or of one has `world`
      // ranks.
      const auto here = static_cast<std::uint32_t>(members.size());
      const bool some = here > 1 && here < ranks_.size();
      const std::uint32_t ranks = std::max(here, exchange.ranks > 0 ? exchange.ranks
                                                 : some             ? here
                                                                    : world_);
      Bytes bytes =
          exchange.bytes;  // input of one rank; an all-gather's buffer has those of all ranks
      if (exchange.kind == CollectiveKind::all_gather)
        bytes = {saturated_product(bytes.count, ranks)};
      builder_.add_collective({.kind = exchange.kind, .bytes = bytes, .ranks = ranks}, members);
    }
    for (const Exchange& message : messages_) {
      const auto [from, to] = std::pair(message.members[0], message.members[1]);
      builder_.add_edge(builder_.add_tensor(ranks_[from.first].ids[from.second], message.bytes),
                        ranks_[to.first].ids[to.second]);
    }
    note(trace);
    return build_graph(std::move(builder_), path);
  }

 private:
  void match_communication() {
    using Group = std::pair<std::string, std::vector<std::int64_t>>;  // its name, its ranks
    std::map<std::tuple<Group, CollectiveKind, std::size_t>, std::size_t> collectives;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::size_t>, Exchange> messages;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::map<std::pair<Group, CollectiveKind>, std::size_t> counted;
      std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>, std::size_t> sent;
      for (std::size_t i = 0; i < ranks_[r].trace.nodes.size(); ++i) {
        const Node& node = ranks_[r].trace.nodes[i];
        const std::uint32_t stated = size_of_group(node);
        if (const auto kind = kind_of(node); kind && std::max(stated, world_) > 1 && stated != 1) {
          const Group group(node.group, node.ranks);
          const std::size_t number = counted[{group, *kind}]++;
          const auto [at, added] =
              collectives.emplace(std::tuple(group, *kind, number), collectives_.size());
          if (added) collectives_.push_back({.kind = *kind, .ranks = stated, .members = {}});
          Exchange& exchange = collectives_[at->second];
          exchange.bytes = std::max(exchange.bytes, Bytes{*node.comm_size});
          exchange.members.emplace_back(r, i);
        } else if ((node.type == NodeType::send || node.type == NodeType::receive) &&
                   node.comm_size) {
          // Traces may omit the node's own rank: the source of a send, the destination of a
          // receive.
          const bool sends = node.type == NodeType::send;
          const auto self = static_cast<std::int64_t>(r);
          const auto key =
              std::tuple(sends ? self : node.source.value_or(-1),
                         sends ? node.destination.value_or(-1) : self, node.tag.value_or(0));
          const std::size_t number = sent[std::tuple_cat(key, std::tuple(sends))]++;
          Exchange& exchange = messages[std::tuple_cat(key, std::tuple(number))];
          exchange.bytes = std::max(exchange.bytes, Bytes{*node.comm_size});
          exchange.members.insert(sends ? exchange.members.begin() : exchange.members.end(),
                                  {r, i});
        }
      }
    }
    for (auto& [key, message] : messages)
      if (message.members.size() == 2 && message.members[0].first != message.members[1].first)
        messages_.push_back(std::move(message));
    for (const auto* all : {&collectives_, &messages_})
      for (const Exchange& exchange : *all)
        matched_.insert(exchange.members.begin(), exchange.members.end());
  }

  void add_rank(Rank& rank) {
    const auto number = static_cast<std::size_t>(&rank - ranks_.data());
    const auto& nodes = rank.trace.nodes;
    const bool on_gpu = std::ranges::any_of(nodes, [](const Node& n) { return !n.on_host; });
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      const bool matched = matched_.contains({number, i});
      const std::string name = fmt::format("{}{}.{}", rank.label, kind_name(node), node.id);
      const OpId id = builder_.add_op({.name = name,
                                       .kind = kind_name(node),
                                       .compute = matched ? Duration{} : node.duration,
                                       .lane = lane(node, on_gpu)});
      rank.ids.push_back(id);
      if (!matched && node.duration == Duration{}) {
        ++untimed_nodes_;
        // A duration of 0 on the host is not an untimed op: the file rounds down to microseconds.
        if (node.operations || node.tensor_size)
          builder_.add_kernel(id, {.flops = node.operations.value_or(0),
                                   .traffic = {node.tensor_size.value_or(0)}});
        else if (communicates(node) || !node.on_host)
          untimed_.add(kind_name(node), name,
                       communicates(node) && node.comm_size ? "its partners are in other files"
                       : communicates(node)                 ? "no size (comm_size), no duration"
                                            : "no duration, num_ops or tensor_size");
      }
      if (ranks_.size() > 1) builder_.colocate(id, rank.label.substr(0, rank.label.size() - 1));
    }
    add_waits(rank);
  }

  void add_waits(const Rank& rank) {
    const auto& nodes = rank.trace.nodes;
    std::unordered_map<std::uint64_t, std::size_t> by_id;
    for (std::size_t i = 0; i < nodes.size(); ++i) by_id[nodes[i].id] = i;
    std::vector<Wait> waits;
    std::map<std::size_t, std::pair<TensorId, std::int64_t>> tensor_of;  // by writer
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::set<std::size_t> seen;
      for (const auto* list : {&nodes[i].data, &nodes[i].controls})
        for (const std::uint64_t before : *list) {
          const auto found = by_id.find(before);
          // Dependencies on metadata nodes, or on nodes before the recording, are met.
          if (found == by_id.end()) {
            if (!rank.trace.metadata.contains(before) && ++missing_ == 1)
              first_missing_ =
                  fmt::format("{}node {} waits for node {}", rank.label, nodes[i].id, before);
            continue;
          }
          if (!seen.insert(found->second).second) continue;
          if (found->second == i) {  // occurs in published traces
            ++self_dependencies_;
            continue;
          }
          const auto bytes = list == &nodes[i].data ? bytes_read(nodes[found->second], nodes[i])
                                                    : std::optional<std::int64_t>();
          waits.push_back({found->second, i, bytes.value_or(-1)});
        }
    }
    waits_ += waits.size();
    backward_ += erase_backward(waits, nodes.size());
    erased_ += erase_implied(waits, nodes.size());
    // A writer has one tensor, as large as its largest reader needs.
    std::map<std::size_t, std::int64_t> largest;
    for (const Wait& w : waits) largest[w.before] = std::max(largest[w.before], w.bytes);
    for (const Wait& w : waits) {
      if (w.bytes < 0) {
        builder_.add_control(rank.ids[w.before], rank.ids[w.after]);
        continue;
      }
      auto at = tensor_of.find(w.before);
      if (at == tensor_of.end())
        at = tensor_of
                 .emplace(w.before,
                          std::pair(builder_.add_tensor(rank.ids[w.before], {largest[w.before]}),
                                    largest[w.before]))
                 .first;
      builder_.add_edge(at->second.first, rank.ids[w.after]);
    }
    tensors_ += tensor_of.size();
  }

  void note(Trace& trace) const {
    std::size_t nodes = 0, comm = 0;
    for (const Rank& rank : ranks_) {
      nodes += rank.trace.nodes.size();
      comm += static_cast<std::size_t>(std::ranges::count_if(rank.trace.nodes, communicates));
    }
    trace.notes.push_back(
        fmt::format("{} nodes of {} ranks, {} of them communicate; {} have no time", nodes,
                    ranks_.size(), comm, untimed_nodes_));
    trace.notes.push_back(fmt::format(
        "{} dependencies, of which {} are implied by others and removed; {} tensors with a size",
        waits_, erased_, tensors_));
    note_count(
        trace.notes, backward_,
        "warning: the file's dependencies have a cycle: {} on nodes with a higher id are removed");
    note_count(trace.notes, missing_,
               "warning: {} dependencies on nodes that the file does not have are taken as "
               "met; the first: {}",
               first_missing_);
    note_count(trace.notes, self_dependencies_,
               "{} nodes depend on themselves: these dependencies are removed");
    if (comm == 0) return;
    trace.notes.push_back(fmt::format(
        "{} collectives and {} messages of {} ranks, matched by group, kind and position; {} of {} "
        "communication nodes keep their recorded times{}",
        collectives_.size(), messages_.size(), world_, comm - matched_.size(), comm,
        world_ < 2 ? ": give all ranks' files (option ranks) or their number (option world)"
                   : ": they have no size or no partner"));
  }

  /// Number of ranks that the node states for its group; 0 if it states none.
  std::uint32_t size_of_group(const Node& node) const {
    const auto listed = static_cast<std::int64_t>(node.ranks.size());
    return static_cast<std::uint32_t>(node.group_size.value_or(listed));
  }

  std::string lane(const Node& node, bool on_gpu) const {
    if (node.on_host && on_gpu) return "host";
    if (communicates(node)) return "comm";
    if (node.type == NodeType::memory_load || node.type == NodeType::memory_store) return "copy";
    return "compute";
  }

  /// A collective, or a message between two ranks.
  struct Exchange {
    CollectiveKind kind{};
    Bytes bytes{};                                             ///< of the whole buffer
    std::uint32_t ranks;                                       ///< stated by the group, or 0
    std::vector<std::pair<std::size_t, std::size_t>> members;  ///< rank and node, by rank
  };
  std::vector<Rank>& ranks_;
  std::uint32_t world_;
  Untimed& untimed_;
  std::vector<Exchange> collectives_;
  std::vector<Exchange> messages_;                         // sender and receiver
  std::set<std::pair<std::size_t, std::size_t>> matched_;  // (rank, node) of all members
  OpGraphBuilder builder_;
  std::size_t waits_ = 0, erased_ = 0, tensors_ = 0, untimed_nodes_ = 0, self_dependencies_ = 0,
              backward_ = 0, missing_ = 0;
  std::string first_missing_{};
};

}  // namespace
}  // namespace baechi::chakra

namespace baechi {

bool looks_like_chakra(std::string_view beginning) {
  return chakra::looks_like_json(beginning) || chakra::looks_like_protocol_buffers(beginning);
}

Trace read_chakra(TextFile& file, Options& options) {
  constexpr std::int64_t most_ranks = 1 << 20;
  const std::int64_t world = options.get(
      "world", std::int64_t{0}, "number of ranks of a collective; 0: one per file", 0, most_ranks);
  const Untimed untimed = no_untimed_ops(
      options, "the files of all ranks (option ranks) or their number (option world)");
  const std::vector<std::string> paths = rank_files(file.path(), options);
  if (world != 0 && world < static_cast<std::int64_t>(paths.size()))
    options.mistake("world",
                    fmt::format("there are {} files: give at least as many ranks", paths.size()));
  options.finish();
  std::vector<chakra::Rank> ranks;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string label = paths.size() == 1 ? "" : fmt::format("rank{}/", i);
    if (paths[i] == file.path()) {
      ranks.push_back({label, chakra::read_nodes(file)});
      continue;
    }
    TextFile other(paths[i], Content::any);
    ranks.push_back({label, chakra::read_nodes(other)});
  }
  const std::string schema = ranks.front().trace.schema;
  Trace trace{.source = "Chakra execution trace" + (schema.empty() ? "" : " " + schema)};
  trace.untimed = untimed;
  trace.graph =
      chakra::ChakraGraphBuilder(
          ranks,
          static_cast<std::uint32_t>(world == 0 ? static_cast<std::int64_t>(paths.size()) : world),
          trace.untimed)
          .make(file.path(), trace);
  return trace;
}

}  // namespace baechi
