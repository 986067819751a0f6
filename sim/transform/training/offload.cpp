#include "sim/text.h"
#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

struct OffloadChoice {
  std::vector<std::string> modules;  ///< patterns of paths
  bool optimizer = false;
  std::int64_t prefetch = 0;
  std::int64_t home = 1;  ///< the first
  std::int64_t homes = 1;
  std::int64_t disk = 0;  ///< 0: none
};

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
                const OffloadChoice& choice)
      : graph_(graph), device_(device), choice_(choice), copy_(graph), on_(device) {
    for (const OpId v : graph.ops()) module_.push_back(module_of(v));
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
    if (choice_.optimizer)
      for (const OpId v : graph_.ops())
        if (graph_.op(v).phase == Phase::update && !at_home(device_[v])) send_home(v);
    return std::move(copy_).placed(on_);
  }

 private:
  static constexpr std::uint32_t resident = ~std::uint32_t{0};
  struct Visited {
    std::vector<OpId> readers;
    Bytes size{};
    OpId fetch = no_op;
  };

  bool at_home(DeviceId d) const { return std::cmp_greater_equal(index(d), choice_.home); }
  DeviceId home_of(DeviceId d) const {
    return static_cast<DeviceId>(choice_.home +
                                 static_cast<std::int64_t>(index(d)) % choice_.homes);
  }

  /// The outermost module around `v` that a pattern matches, unless `v` runs at home.
  std::uint32_t module_of(OpId v) {
    const std::string_view path = graph_.module(v);
    for (std::size_t end = 0; end < path.size() && !at_home(device_[v]); ++end) {
      end = std::min(path.find('.', end), path.size());
      const std::string name(path.substr(0, end));
      if (std::ranges::none_of(choice_.modules,
                               [&](const std::string& p) { return Wildcard{p}.matches(name); }))
        continue;
      const auto [found, made] =
          numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
      if (made) names_.push_back(name);
      return found->second;
    }
    return resident;
  }

  /// The forward op whose weights `v` reads; no_op: none.
  OpId owner(OpId v) const {
    const Op& op = graph_.op(v);
    return op.phase == Phase::forward ? v : op.phase == Phase::backward ? op.forward : no_op;
  }
  Bytes weights_of(OpId v) const { return graph_.op(v).persistent - graph_.cache(v); }

  void copy_all() {
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    for (const OpId v : graph_.ops()) {
      OpSpec spec = copy_.spec(v);
      if (module_[v] != resident && owner(v) == v)
        spec.persistent = spec.persistent - weights_of(v);
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
    const OpId of = owner(v);
    if (of == no_op || module_[of] == resident || weights_of(of) == Bytes{}) return;
    Visited& visited = visits_[visit_of(v)];
    if (visited.readers.empty()) order_.push_back(visit_of(v));
    visited.readers.push_back(v);
    visited.size += weights_of(of);
  }

  OpId add(const std::string& name, std::string_view kind, Bytes persistent, Phase phase,
           std::string_view module, DeviceId on) {
    on_.push_back(on);
    return copy_.builder().add_op(
        {.name = name, .kind = kind, .persistent = persistent, .phase = phase, .module = module});
  }

  /// The tensor of a visit's weights, at home. They are held there once, or on the disk, from where
  /// each visit reads them into memory at home.
  TensorId fetch(const Visit& at) {
    Visited& visited = visits_[at];
    const std::string& module = names_[at.module];
    visited.fetch =
        add(fmt::format("{}/{}/weights/{}", module, to_text(at.phase), index(at.device)),
            "HostWeights", at.phase == Phase::forward ? visited.size : Bytes{}, at.phase, module,
            choice_.disk > 0 ? static_cast<DeviceId>(choice_.disk) : home_of(at.device));
    const TensorId weights = copy_.builder().add_tensor(visited.fetch, visited.size, true);
    if (choice_.disk == 0) return weights;
    const OpId stage =
        add(fmt::format("{}/{}/stage/{}", module, to_text(at.phase), index(at.device)),
            "HostWeights", Bytes{}, at.phase, module, home_of(at.device));
    copy_.builder().add_edge(weights, stage);
    return copy_.builder().add_tensor(stage, visited.size);
  }

  /// Lets the copy of a visit's weights wait for the op before its module, or until the buffer of
  /// an earlier visit is free.
  void gate(const Visit& at, const std::vector<Visit>& before) {
    OpId last = no_op;
    if (choice_.prefetch == 0) {
      const OpId first = visits_[at].readers.front();
      for (const OpId v : graph_.ops()) {
        if (v == first) break;
        const bool inside = owner(v) != no_op && module_[owner(v)] != resident && visit_of(v) == at;
        if (device_[v] == at.device && graph_.op(v).phase == at.phase && !inside) last = v;
      }
    } else if (std::cmp_greater(before.size(), choice_.prefetch)) {
      last = visits_[before[before.size() - 1 - static_cast<std::size_t>(choice_.prefetch)]]
                 .readers.back();
    }
    if (last != no_op) copy_.builder().add_control(copy_.copy_of(last), visits_[at].fetch);
  }

  /// The update op `v` runs at home, and its device receives the new weights.
  void send_home(OpId v) {
    Bytes weights;
    for (const OpId u : graph_.predecessors(v))
      if (const OpId of = owner(u); of != no_op && of != u) weights += weights_of(of);
    const DeviceId home = home_of(device_[v]);
    on_[copy_.copy_of(v)] = home;
    const TensorId updated = copy_.builder().add_tensor(copy_.copy_of(v), weights, true);
    const OpId receive = add(fmt::format("{}/receive", graph_.name(v)), "Receive", Bytes{},
                             Phase::update, graph_.module(v), device_[v]);
    copy_.builder().add_edge(updated, receive);
  }

  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  const OffloadChoice& choice_;
  GraphCopy copy_;
  IdVector<OpId, DeviceId> on_;           // [ops of the builder]
  IdVector<OpId, std::uint32_t> module_;  // [num_ops], into names_, or resident
  std::vector<std::string> names_;
  std::map<std::string, std::uint32_t> numbers_;
  std::map<Visit, Visited> visits_;
  std::vector<Visit> order_;
};

/// Weights or the optimizer wait in the memory of another device, `home`, which a link joins to the
/// devices that compute.
///   modules: paths of modules whose weights wait there. Each pass of a device copies a module's
///     weights when it gets there, and drops them after it: tensors with `reference`, so that they
///     take no further memory at home. Its cache stays.
///   prefetch: 0 copies the weights when the op before the module has ended (accelerate's hooks);
///     p copies them as soon as the buffer of the module that is p + 1 such modules before is free.
///     A control edge carries this, and its latency stands for the launch of the copy.
///   optimizer: update ops run at home: gradients go there as tensors do, new weights come back.
///   homes: with several, device d has home + d mod homes, each with links of its own.
///   disk: weights wait on this device behind home, and go by way of home's memory.
/// Source: Ren et al., "ZeRO-Offload", USENIX ATC 2021; Hugging Face accelerate, hooks.
class Offload final : public Transform {
 public:
  explicit Offload(Options& o) {
    if (const Options::Value* given =
            o.raw("modules", "paths of modules, with * and ?, whose weights wait at home")) {
      if (!given->text.empty()) choice_.modules.push_back(given->text);
      for (const auto& [key, module] : given->children) {
        if (!key.empty() || module.text.empty()) o.mistake("modules", "not a list of paths");
        choice_.modules.push_back(module.text);
      }
    }
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
    return OffloadedStep(graph, device, choice_).run();
  }
  std::string no_pipeline(PipelineTraits /*pipeline*/) const override {
    return "offload: each micro-batch would copy the weights again";
  }
  /// What is launched, sent or divided among replicas is decided before: copies of weights are none
  /// of the model's ops.
  bool must_follow(std::string_view other) const override {
    return other == "data_parallel" || other == "host" || other == "send_after_pass";
  }
  std::int64_t devices() const override {
    return std::max(choice_.home + choice_.homes, choice_.disk + 1);
  }

 private:
  OffloadChoice choice_;
};

}  // namespace

std::unique_ptr<Transform> make_offload(Options& options) {
  return std::make_unique<Offload>(options);
}

}  // namespace baechi
