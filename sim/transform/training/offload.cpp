#include "sim/transform/training/offload.h"

#include "sim/text.h"
#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

/// A module whose weights wait elsewhere, in one pass on one device.
struct Visit {
  std::uint32_t module = 0;
  DeviceId device{};
  Phase phase{};
  friend auto operator<=>(const Visit&, const Visit&) = default;
};

class OffloadedStep {
 public:
  OffloadedStep(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                const WaitingWeights& waiting)
      : graph_(graph), device_(device), waiting_(waiting), copy_(graph), on_(device) {
    for (const std::string& module : waiting.module)
      module_.push_back(
          numbers_.try_emplace(module, static_cast<std::uint32_t>(numbers_.size())).first->second);
  }

  PlacedStep run() && {
    copy_all();
    for (const OpId v : graph_.ops()) visit(v);
    std::map<std::pair<DeviceId, Phase>, std::vector<Visit>> passed;  // before the visit
    for (const Visit& at : order_) {
      const TensorId weights = fetch(at);
      for (const OpId v : visits_[at].readers) copy_.builder().add_edge(weights, copy_.copy_of(v));
      auto& before = passed[{at.device, at.phase}];
      gate(at, before);
      before.push_back(at);
    }
    for (const OpId v : graph_.ops())
      if (graph_.op(v).phase == Phase::update && waits(v)) send_home(v);
    return std::move(copy_).placed(on_);
  }

 private:
  struct Visited {
    std::vector<OpId> readers;
    Bytes size{};
    OpId fetch = no_op;
  };

  bool waits(OpId v) const { return waiting_.home[v] != device_[v]; }
  /// The forward op whose weights `v` reads; no_op: none.
  OpId owner(OpId v) const {
    const Op& op = graph_.op(v);
    return op.phase == Phase::forward ? v : op.phase == Phase::backward ? op.forward : no_op;
  }
  bool reads_waiting(OpId v) const { return owner(v) != no_op && waits(owner(v)); }
  Bytes weights_of(OpId v) const { return graph_.op(v).persistent - graph_.cache(v); }

  /// Whether a backward op's gradients, persistent ones, go to the home of the update op `v`.
  bool sends_gradients(OpId u, OpId v) const {
    return waits(v) && graph_.op(u).phase == Phase::backward && graph_.op(u).persistent > Bytes{};
  }

  void copy_all() {
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    std::set<OpId> sent;
    for (const OpId v : graph_.ops())
      for (const OpId u : graph_.predecessors(v))
        if (graph_.op(v).phase == Phase::update && sends_gradients(u, v)) sent.insert(u);
    for (const OpId v : graph_.ops()) {
      OpSpec spec = copy_.spec(v);
      if (sent.contains(v)) spec.persistent = {};
      if (waits(v) && owner(v) == v) spec.persistent = spec.persistent - weights_of(v);
      const OpId made = copy_.add(v, spec);
      copy_.add_kernels(v, made);
      for (const TensorId t : graph_.outputs(v))
        if (!graph_.tensor(t).control)
          tensors[t] = copy_.add_tensor(t, made, graph_.tensor(t).size);
    }
    copy_.add_edges(tensors);
  }

  Visit visit_of(OpId v) const { return {module_[owner(v)], device_[v], graph_.op(v).phase}; }

  void visit(OpId v) {
    if (!reads_waiting(v) || weights_of(owner(v)) == Bytes{}) return;
    Visited& visited = visits_[visit_of(v)];
    if (visited.readers.empty()) order_.push_back(visit_of(v));
    visited.readers.push_back(v);
    visited.size += weights_of(owner(v));
  }

  OpId add(const std::string& name, std::string_view kind, Bytes persistent, Phase phase,
           std::string_view module, DeviceId on) {
    on_.push_back(on);
    return copy_.builder().add_op(
        {.name = name, .kind = kind, .persistent = persistent, .phase = phase, .module = module});
  }

  /// The tensor of a visit's weights, in the host's memory. They are held there once, or on the
  /// disk, from where each visit reads them into the host's memory.
  TensorId fetch(const Visit& at) {
    Visited& visited = visits_[at];
    const OpId first = owner(visited.readers.front());
    const std::string& module = waiting_.module[index(first)];
    const auto named = [&](std::string_view what) {
      return fmt::format("{}/{}/{}/{}", module, to_text(at.phase), what, index(at.device));
    };
    visited.fetch =
        add(named("weights"), "HostWeights", at.phase == Phase::forward ? visited.size : Bytes{},
            at.phase, graph_.has_modules() ? module : "", waiting_.home[first]);
    const TensorId weights = copy_.builder().add_tensor(visited.fetch, visited.size, true);
    if (waiting_.host[first] == waiting_.home[first]) return weights;
    const OpId stage = add(named("stage"), "HostWeights", Bytes{}, at.phase,
                           graph_.has_modules() ? module : "", waiting_.host[first]);
    copy_.builder().add_edge(weights, stage);
    return copy_.builder().add_tensor(stage, visited.size);
  }

  /// Lets the copy of a visit's weights wait for the op before its module, or until the buffer of
  /// an earlier visit is free.
  void gate(const Visit& at, const std::vector<Visit>& before) {
    OpId last = no_op;
    if (waiting_.prefetch == 0) {
      const OpId first = visits_[at].readers.front();
      for (const OpId v : graph_.ops()) {
        if (v == first) break;
        const bool inside = reads_waiting(v) && visit_of(v) == at;
        if (device_[v] == at.device && graph_.op(v).phase == at.phase && !inside) last = v;
      }
    } else if (std::cmp_greater(before.size(), waiting_.prefetch)) {
      last = visits_[before[before.size() - 1 - static_cast<std::size_t>(waiting_.prefetch)]]
                 .readers.back();
    }
    if (last != no_op) copy_.builder().add_control(copy_.copy_of(last), visits_[at].fetch);
  }

  /// The update op `v` runs at home, and its device receives the new weights.
  void send_home(OpId v) {
    Bytes weights;
    bool stay = false;  // until the next step fetches them
    for (const OpId u : graph_.predecessors(v)) {
      if (sends_gradients(u, v))
        copy_.builder().add_edge(
            copy_.builder().add_tensor(copy_.copy_of(u), graph_.op(u).persistent),
            copy_.copy_of(v));
      const OpId of = owner(u);
      if (of == no_op || of == u) continue;
      stay |= waits(of);
      if (!waits(of)) weights += weights_of(of);
    }
    on_[copy_.copy_of(v)] = waiting_.home[v];
    if (stay && weights == Bytes{}) return;
    const TensorId updated = copy_.builder().add_tensor(copy_.copy_of(v), weights, true);
    const OpId receive = add(fmt::format("{}/receive", graph_.name(v)), "Receive", Bytes{},
                             Phase::update, graph_.module(v), device_[v]);
    copy_.builder().add_edge(updated, receive);
  }

  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  const WaitingWeights& waiting_;
  GraphCopy copy_;
  IdVector<OpId, DeviceId> on_;           // [ops of the builder]
  IdVector<OpId, std::uint32_t> module_;  // [num_ops] in numbers_
  std::map<std::string, std::uint32_t> numbers_;
  std::map<Visit, Visited> visits_;
  std::vector<Visit> order_;
};

struct OffloadChoice {
  std::vector<std::string> modules;  ///< patterns of paths
  std::vector<std::string> on_disk;  ///< of those, if some are in the host's memory
  bool optimizer = false;
  std::int64_t prefetch = 0;
  std::int64_t home = 1;  ///< the first
  std::int64_t homes = 1;
  std::int64_t disk = 0;  ///< 0: none

  static bool match(const std::vector<std::string>& patterns, std::string_view name) {
    return std::ranges::any_of(patterns,
                               [&](const std::string& p) { return Wildcard{p}.matches(name); });
  }

  /// The outermost module around `path` that a pattern matches; nothing: none does.
  std::optional<std::string> module_around(std::string_view path) const {
    for (std::size_t end = 0; end < path.size(); ++end) {
      end = std::min(path.find('.', end), path.size());
      std::string name(path.substr(0, end));
      if (match(modules, name)) return name;
    }
    return std::nullopt;
  }

  WaitingWeights waiting(const OpGraph& graph, const IdVector<OpId, DeviceId>& device) const {
    WaitingWeights w{
        .home = device, .host = device, .module = std::vector<std::string>(device.size())};
    w.prefetch = prefetch;
    for (const OpId v : graph.ops()) {
      const auto d = static_cast<std::int64_t>(index(device[v]));
      if (d >= home) continue;
      const auto module = module_around(graph.module(v));
      const bool updates = optimizer && graph.op(v).phase == Phase::update;
      if (!updates && (!module || graph.op(v).phase == Phase::update)) continue;
      w.home[v] = w.host[v] = static_cast<DeviceId>(home + d % homes);
      if (disk > 0 && !updates && (on_disk.empty() || match(on_disk, *module)))
        w.home[v] = static_cast<DeviceId>(disk);
      w.module[index(v)] = module.value_or("");
    }
    return w;
  }
};

/// Weights or the optimizer wait in the memory of another device, `home`, which a link joins to the
/// devices that compute: see offloaded(). With several homes, device d has home + d mod homes, each
/// with links of its own. Weights on `disk` go by way of home's memory.
class Offload final : public Transform {
 public:
  explicit Offload(Options& o) {
    choice_.modules = paths(o, "modules", "paths of modules, with * and ?, whose weights wait");
    choice_.on_disk = paths(o, "on_disk", "with disk: those of modules that wait there [all]");
    choice_.optimizer = o.get("optimizer", false, "update ops run at home");
    choice_.prefetch = o.get("prefetch", std::int64_t{0}, "modules that are copied ahead", 0, 1024);
    choice_.home = o.get("home", std::int64_t{1},
                         "number of the device where they wait; lower ones compute", 1, 1023);
    choice_.homes =
        o.get("homes", std::int64_t{1}, "devices from there on that are homes", 1, 1023);
    choice_.disk = o.get("disk", std::int64_t{0},
                         "number of a device behind home where weights wait; 0: none", 0, 1023);
    if (choice_.disk > 0 && choice_.disk < choice_.home + choice_.homes)
      o.mistake("disk", "a device that computes, or a home");
  }

  Transformed apply(const OpGraph& graph) const override {
    if (!choice_.modules.empty() && !graph.has_modules())
      throw InputError("offload: no op has a module of the model (key `module` of an op)");
    return same_ops(graph);
  }
  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    if (choice_.modules.empty() && !choice_.optimizer)
      throw InputError("offload: it needs modules, or optimizer: true");
    return offloaded(graph, device, choice_.waiting(graph, device));
  }
  std::string no_pipeline(PipelineTraits /*pipeline*/) const override {
    return "offload: each micro-batch would copy the weights again";
  }
  /// These only apply to ops of the model, not to copies of weights.
  bool must_follow(std::string_view other) const override {
    return other == "data_parallel" || other == "host" || other == "send_after_pass";
  }
  std::int64_t devices() const override {
    return std::max(choice_.home + choice_.homes, choice_.disk + 1);
  }

 private:
  static std::vector<std::string> paths(Options& o, const char* key, const char* help) {
    std::vector<std::string> all;
    const Options::Value* given = o.raw(key, help);
    if (given == nullptr) return all;
    if (!given->text.empty()) all.push_back(given->text);
    for (const auto& [name, module] : given->children) {
      if (!name.empty() || module.text.empty()) o.mistake(key, "not a list of paths");
      all.push_back(module.text);
    }
    return all;
  }

  OffloadChoice choice_;
};

}  // namespace

PlacedStep offloaded(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                     const WaitingWeights& waiting) {
  return OffloadedStep(graph, device, waiting).run();
}

std::unique_ptr<Transform> make_offload(Options& options) {
  return std::make_unique<Offload>(options);
}

}  // namespace baechi
