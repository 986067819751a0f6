#include "placers/files/placement_file.h"

#include <iterator>

#include "sim/error.h"
#include "sim/objective/replicas.h"
#include "traces/format/json.h"
#include "traces/format/json_string.h"

namespace baechi {
namespace {

constexpr std::string_view format_name = "baechi-placement";
constexpr DeviceId not_read{~std::uint32_t{0}};

constexpr std::string_view file_keys[] = {
    "format", "version", "id", "graph", "devices", "placement", "home", "prefetch", "order",
    // Keys that `baechi place --format json` and external placers write. Only status, detail,
    // placing_ms and the facts of replicas are read; the others are skipped.
    "placer", "placed_by", "placing_ms", "facts", "status", "detail", "step_time_us", "peak_kinds",
    "spare_bytes", "assumed_kind", "kind_without_times", "evidence",
    // Keys of planners. Only plan is read.
    "time_per_sample_us", "simulated_us", "simulated_together_us", "simulated_overlap_us",
    "simulated_batch_us", "difference", "plan"};

/// Finds ops by name. Most files list ops in the graph's order; any other order needs a list of all
/// ops, sorted by name.
class OpNames {
 public:
  explicit OpNames(const OpGraph& graph) : graph_(graph) {}

  /// Constant time for the op after the one found last.
  std::optional<OpId> find(std::string_view name) {
    if (index(next_) < graph_.num_ops() && graph_.name(next_) == name) return found(next_);
    const auto name_of = [this](OpId v) { return graph_.name(v); };
    if (by_name_.empty()) {
      std::ranges::copy(graph_.ops(), std::back_inserter(by_name_));
      std::ranges::sort(by_name_, {}, name_of);
    }
    const auto it = std::ranges::lower_bound(by_name_, name, {}, name_of);
    if (it == by_name_.end() || graph_.name(*it) != name) return std::nullopt;
    return found(*it);
  }

 private:
  OpId found(OpId v) {
    next_ = static_cast<OpId>(index(v) + 1);
    return v;
  }

  const OpGraph& graph_;
  OpId next_{0};
  std::vector<OpId> by_name_;
};

class PlacementReader {
 public:
  PlacementReader(const std::string& text, const std::string& path, const OpGraph& graph,
                  std::size_t num_devices, std::optional<std::int64_t> problem)
      : file_(path, text),
        graph_(graph),
        num_devices_(num_devices),
        problem_(problem),
        ops_(graph) {}

  Placement read() {
    Json root = file_.root();
    const std::size_t start = root.offset();
    const bool is_object = root.is_object();
    std::optional<std::size_t> placement_at;
    bool infeasible = false, identified = !problem_;
    result_.device.assign(graph_.num_ops(), not_read);
    root.object({"a placement", file_keys, 2}, [&](std::string_view key, Json value) {
      if (key == "format") check_format(value);
      if (key == "version") check_version(value);
      if (key == "id" && problem_) identified = check_id(value);
      if (key == "devices") read_devices(value);
      if (key == "order") read_order(value);
      if (key == "detail") result_.detail = value.string();
      if (key == "placing_ms") read_placing(value);
      if (key == "status") infeasible = read_status(value);
      if (key == "facts" && value.is_object()) read_facts(value);
      if (key == "plan" && value.is_object()) check_plan(value);
      if (key == "placement") {
        placement_at = value.offset();
        read_devices_of_ops(value, result_.device);
      }
      if (key == "home") {
        result_.home.assign(graph_.num_ops(), not_read);
        read_devices_of_ops(value, result_.home);
      }
      if (key == "prefetch") result_.prefetch = value.whole();
    });
    if (is_object && !identified)
      file_.mistake(start,
                    "an answer of a persistent program repeats the problem's \"id\", so that a "
                    "late line is not taken for it");
    if (is_object && !placement_at && !infeasible)
      file_.mistake(start, "a placement needs a key 'placement'");
    if (placement_at) check_complete(*placement_at);
    if (highest_ && devices_ && index(*highest_) >= *devices_)
      file_.mistake(highest_at_,
                    fmt::format("device {}, but 'devices' is {}", index(*highest_), *devices_));
    file_.finish();
    for (const OpId v : result_.home.ids())
      if (result_.home[v] == not_read) result_.home[v] = result_.device[v];
    if (infeasible)
      throw InfeasibleError(result_.detail.empty() ? "no placement found" : result_.detail);
    return std::move(result_);
  }

 private:
  void check_format(Json value) {
    if (value.string() == format_name) return;
    value.is_not(fmt::format("\"{}\"", format_name));
    file_.throw_if_any();  // the rest of another format would give misleading mistakes
  }

  void check_version(Json value) {
    if (value.whole() == 1) return;
    value.is_not("a version that can be read here: 1");
    file_.throw_if_any();
  }

  bool check_id(Json value) {
    if (const std::int64_t id = value.whole(); id != *problem_)
      value.mistake(fmt::format("the answer to problem {}, not {}", id, *problem_));
    file_.throw_if_any();  // mistakes in another problem's answer are not of interest
    return true;
  }

  void read_devices(Json value) {
    devices_ = static_cast<std::size_t>(value.whole());
    if (*devices_ > num_devices_)
      value.mistake(fmt::format("a placement for {} devices, but the cluster has {}", *devices_,
                                num_devices_));
  }

  bool read_status(Json value) {
    const std::optional<Status> status = parse<Status>(value.string());
    if (!status || status == Status::error) value.is_not("\"ok\", \"oom\" or \"infeasible\"");
    return status == Status::infeasible;
  }

  void read_placing(Json value) {
    constexpr double most = 1e12;  // 30 years
    const double ms = value.number();
    if (!(ms >= 0.0) || ms > most) return value.is_not("a time in ms");
    result_.own_placing = std::chrono::nanoseconds(std::llround(ms * 1e6));
  }

  void read_facts(Json value) {
    value.entries([&](std::string_view name, Json fact) {
      if (is_replica_fact(name)) result_.facts[std::string(name)] = fact.number();
    });
  }

  /// Reads the replicas of a plan from its facts; a placement cannot express its other parts.
  void check_plan(Json plan) {
    plan.entries([&](std::string_view part, Json stages) {
      if (part != "stages") return;
      stages.list([&](Json stage) {
        stage.entries([&](std::string_view name, Json value) {
          if (name == "tensor_parallel" && value.whole() > 1)
            value.mistake("a placement cannot express that devices divide ops");
          bool again = false;
          if (name != "recompute") return;
          const std::size_t at = value.offset();
          value.list([&](Json op) { again = again || !op.string().empty(); });
          if (again) file_.mistake(at, "a placement cannot express that ops are recomputed");
        });
      });
    });
  }

  void read_devices_of_ops(Json value, IdVector<OpId, DeviceId>& devices) {
    value.entries([&](std::string_view name, Json device) {
      const std::optional<OpId> v = op_called(name, device);
      const auto d = static_cast<std::uint64_t>(device.whole());
      const bool exists = d < num_devices_;
      if (!exists)
        device.mistake(
            fmt::format("there is no device {}; the cluster has 0 to {}", d, num_devices_ - 1));
      if (!v) return;
      if (devices[*v] != not_read) device.mistake("this op was placed before");
      devices[*v] = exists ? static_cast<DeviceId>(d) : DeviceId{0};
      if (!exists || (highest_ && *highest_ >= devices[*v])) return;
      highest_ = devices[*v];
      highest_at_ = device.offset();
    });
  }

  /// The first op in the list gets the largest priority; ops that are not listed get 0.
  void read_order(Json value) {
    std::vector<OpId> order;
    IdVector<OpId, bool> listed(graph_.num_ops());
    value.list([&](Json element) {
      if (!element.token().starts_with('"')) return element.is_not("the name of an op");
      const std::string_view name = element.string();
      const std::optional<OpId> v = op_called(name, element);
      if (!v) return;
      if (listed[*v]) element.mistake(fmt::format("op '{}' is listed twice", name));
      listed[*v] = true;
      order.push_back(*v);
    });
    if (order.empty()) return;
    result_.priority.assign(graph_.num_ops(), 0);
    auto priority = static_cast<std::int32_t>(order.size());
    for (const OpId v : order) result_.priority[v] = priority--;
  }

  std::optional<OpId> op_called(std::string_view name, Json& place) {
    if (const auto v = ops_.find(name)) return v;
    place.mistake(fmt::format("the graph has no op '{}'{}", name, suggestion(name)));
    return std::nullopt;
  }

  /// did_you_mean() for the first few mistakes; later "", because it compares with all ops.
  std::string suggestion(std::string_view name) {
    if (++suggestions_ > 5 || graph_.num_ops() > 20'000) return "";
    if (names_.empty())
      for (const OpId v : graph_.ops()) names_.emplace_back(graph_.name(v));
    return did_you_mean(name, names_);
  }

  void check_complete(std::size_t offset) {
    constexpr std::size_t listed = 5;
    std::vector<std::string_view> missing;
    std::size_t count = 0;
    for (const OpId v : graph_.ops()) {
      if (result_.device[v] == not_read && ++count <= listed) missing.push_back(graph_.name(v));
    }
    if (count == 0) return;
    file_.mistake(offset, fmt::format("{} op{} of the graph without a device: {}{}", count,
                                      count == 1 ? "" : "s", fmt::join(missing, ", "),
                                      count > listed ? ", ..." : ""));
  }

  JsonFile file_;
  const OpGraph& graph_;
  std::size_t num_devices_;
  std::optional<std::int64_t> problem_;
  OpNames ops_;
  std::vector<std::string> names_;  // names of all ops; filled for the first suggestion
  std::size_t suggestions_ = 0;
  std::optional<std::size_t> devices_;
  std::optional<DeviceId> highest_;
  std::size_t highest_at_ = 0;
  Placement result_;
};

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

Placement parse_placement(const std::string& text, const std::string& path, const OpGraph& graph,
                          std::size_t num_devices, std::optional<std::int64_t> problem) {
  return PlacementReader(text, path, graph, num_devices, problem).read();
}

std::vector<OpId> placement_order(const Placement& placement, const OpGraph& graph) {
  if (placement.priority.empty()) return {};
  std::vector<OpId> order;
  order.reserve(graph.num_ops());
  std::ranges::copy(graph.ops(), std::back_inserter(order));
  std::ranges::stable_sort(order, std::greater{}, [&](OpId v) { return placement.priority[v]; });
  return order;
}

std::string placement_json(const Placement& placement, const OpGraph& graph,
                           std::string_view graph_name, std::size_t num_devices) {
  fmt::memory_buffer json;
  fmt::format_to(fmt::appender(json),
                 "{{\"format\": \"{}\", \"version\": 1, \"graph\": {}, \"devices\": {},\n"
                 " \"placement\": {{",
                 format_name, json_string(graph_name), num_devices);
  const auto put = [&](std::string_view text) {
    json.append(text.data(), text.data() + text.size());
  };
  const auto put_name = [&](OpId v, std::string_view separator) {
    put(separator);
    append_json_string(json, graph.name(v));
  };
  for (const OpId v : graph.ops()) {
    put_name(v, index(v) == 0 ? "\n  " : ",\n  ");
    put(": ");
    put(fmt::format_int(index(placement.device[v])).c_str());
  }
  put("}");
  std::string_view separator = ",\n \"home\": {\n  ";
  for (const OpId v : graph.ops()) {
    if (!placement.waits(v)) continue;
    put_name(v, std::exchange(separator, ",\n  "));
    fmt::format_to(fmt::appender(json), ": {}", index(placement.home[v]));
  }
  if (separator == ",\n  ")
    fmt::format_to(fmt::appender(json), "}},\n \"prefetch\": {}", placement.prefetch);
  separator = ",\n \"order\": [\n  ";
  for (const OpId v : placement_order(placement, graph))
    put_name(v, std::exchange(separator, ",\n  "));
  if (!placement.priority.empty()) put("]");
  separator = ",\n \"facts\": {";
  for (const auto& [name, value] : placement.facts)
    if (is_replica_fact(name))
      fmt::format_to(fmt::appender(json), "{}\"{}\": {}", std::exchange(separator, ", "), name,
                     value);
  if (separator == ", ") put("}");
  put("}\n");
  return fmt::to_string(json);
}

void write_placement(const std::string& path, const Placement& placement, const OpGraph& graph,
                     std::string_view graph_name, std::size_t num_devices) {
  write_file(path, placement_json(placement, graph, graph_name, num_devices));
}

Placement parse_split(const std::string& text, const std::string& path, const Problem& problem) {
  return SplitReader(text, path, problem).read();
}

bool is_split(const std::string& text) {
  return text.find("\"fpgas\"") != std::string::npos &&
         text.find("\"baechi-placement\"") == std::string::npos;
}

}  // namespace baechi
