#include "placers/files/split_file.h"

#include <optional>
#include <unordered_map>

#include "placers/files/placement_file.h"
#include "sim/error.h"
#include "sim/units.h"
#include "traces/format/compressed_file.h"
#include "traces/format/json.h"

namespace baechi {
namespace {

constexpr std::string_view file_names[] = {"fpgas", "cpus", "maxLoad"};
constexpr std::string_view device_names[] = {"nodes", "load"};

class SplitReader {
 public:
  SplitReader(const std::string& text, const std::string& path, const Problem& problem)
      : file_(path, text), problem_(problem), device_(problem.graph.num_ops()) {
    name_nodes(problem.graph);
    for (const DeviceId d : problem.cluster.devices())
      (problem.cluster.device(d).is_core() ? cores_ : accelerators_).push_back(d);
  }

  Placement read() {
    Json root = file_.root();
    const std::size_t start = root.offset();
    root.object({"a split", file_names, 2}, [&](std::string_view key, Json value) {
      if (key == "fpgas") devices(value, accelerators_, "accelerators");
      if (key == "cpus") devices(value, cores_, "cores");
    });
    follow_groups();
    Placement placement;
    for (const OpId v : problem_.graph.ops()) {
      if (!device_[v] && !beyond_)
        file_.mistake(start, fmt::format("op '{}' has no device", problem_.graph.name(v)));
      placement.device.push_back(device_[v].value_or(DeviceId{0}));
    }
    file_.finish();
    if (beyond_) throw InfeasibleError(*beyond_);
    return placement;
  }

 private:
  /// Indexes the ops by node id: node i is the op called node<i> or, without a name in the file,
  /// n<i>. In a training graph with n forward ops, node<i>grad is node i + n.
  void name_nodes(const OpGraph& graph) {
    const auto number = [](std::string_view name, std::string_view before, std::string_view after) {
      if (!name.starts_with(before) || !name.ends_with(after) ||
          name.size() < before.size() + after.size())
        return std::optional<std::int64_t>();
      name.remove_prefix(before.size());
      name.remove_suffix(after.size());
      return parse_number<std::int64_t>(name);
    };
    std::int64_t forward = 0;
    for (const OpId v : graph.ops()) {
      auto id = number(graph.name(v), "node", "");
      if (id) ++forward;
      if (!id) id = number(graph.name(v), "n", "");
      if (id) ops_.emplace(*id, v);
    }
    for (const OpId v : graph.ops())
      if (const auto id = number(graph.name(v), "node", "grad")) ops_.emplace(*id + forward, v);
  }

  void devices(Json list, const std::vector<DeviceId>& known, std::string_view what) {
    std::size_t count = 0;
    list.list([&](Json device) {
      device.object({"a device", device_names, 1}, [&](std::string_view key, Json nodes) {
        if (key != "nodes") return;
        const std::optional<DeviceId> d =
            count < known.size() ? std::optional(known[count]) : std::nullopt;
        nodes.list([&](Json node) { place(node, d, known.size(), what); });
      });
      ++count;
    });
  }

  void place(Json node, std::optional<DeviceId> d, std::size_t known, std::string_view what) {
    const auto it = ops_.find(node.whole());
    if (it == ops_.end())
      return node.is_not(ops_.empty() ? "a node of the graph, none of whose ops is called node<ID> "
                                        "(dnn_partitioning:names=ids calls them so)"
                                      : "a node of the graph");
    if (!d) beyond_ = fmt::format("the split has more than the {} {} of the cluster", known, what);
    if (device_[it->second]) node.mistake("this node was placed before");
    device_[it->second] = d;
  }

  void follow_groups() {
    const OpGraph& graph = problem_.graph;
    for (const GroupId g : graph.groups()) {
      std::optional<DeviceId> first;
      for (const OpId v : graph.members(g))
        if (!first) first = device_[v];
      for (const OpId v : graph.members(g))
        if (!device_[v]) device_[v] = first;
    }
  }

  JsonFile file_;
  const Problem& problem_;
  std::unordered_map<std::int64_t, OpId> ops_;  // by node id
  std::vector<DeviceId> accelerators_, cores_;
  IdVector<OpId, std::optional<DeviceId>> device_;
  std::optional<std::string> beyond_;
};

}  // namespace

bool is_split(const std::string& text) {
  return text.find("\"fpgas\"") != std::string::npos &&
         text.find("\"baechi-placement\"") == std::string::npos;
}

Placement parse_split(const std::string& text, const std::string& path, const Problem& problem) {
  return SplitReader(text, path, problem).read();
}

Placement read_placement_or_split(const std::string& path, const Problem& problem) {
  const std::string text = read_file(path, most_placement_bytes);
  if (is_split(text)) return parse_split(text, path, problem);
  return parse_placement(text, path, problem.graph, problem.cluster.num_devices());
}

}  // namespace baechi
