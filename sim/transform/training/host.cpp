#include "sim/graph/analysis.h"
#include "sim/transform/graph_copy.h"

namespace baechi {

enum class LaunchPer : std::uint8_t { op, kernel, pass };
constexpr auto names_of(LaunchPer) {
  return std::to_array<Named<LaunchPer>>(
      {{LaunchPer::op, "op"},
       {LaunchPer::kernel, "kernel"},
       {LaunchPer::pass, "pass", "all kernels of a device's forward or backward pass at once"}});
}

enum class HostThreads : std::uint8_t { device, one };
constexpr auto names_of(HostThreads) {
  return std::to_array<Named<HostThreads>>({{HostThreads::device, "device", "one per device"},
                                            {HostThreads::one, "one", "one for all devices"}});
}

namespace {

/// `per: pass`: the launches of one pass on one device as one op, for steps whose passes host and
/// device start together, as in a pipeline. A device starts another pass whenever the step returns
/// to it: with devices in the order of their first ops, a forward op that reads from a later device
/// belongs to its device's next pass; a backward op belongs to the pass of its forward op.
class PassLaunches {
 public:
  PassLaunches(const OpGraph& graph, const IdVector<OpId, DeviceId>& device)
      : graph_(graph), device_(device), copy_(graph) {
    std::map<DeviceId, std::size_t> place;
    for (const OpId v : graph.ops()) place.try_emplace(device[v], place.size());
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      std::uint32_t lap = 0;
      for (const OpId u : graph.predecessors(v))
        if (op.phase == Phase::forward && graph.op(u).phase == Phase::forward)
          lap = std::max(lap, pass_[u].lap + (place[device[u]] > place[device[v]] ? 1U : 0U));
        else if (op.phase == Phase::backward && device[u] == device[v])
          lap = std::max(lap, pass_[u].lap);
      if (op.phase == Phase::backward && op.forward != no_op) lap = pass_[op.forward].lap;
      pass_.push_back({device[v], op.phase, lap});
    }
  }

  PlacedStep run(Duration launch) && {
    copy_.add_all();
    std::map<Pass, std::int64_t> kernels;
    for (const OpId v : graph_.ops())
      if (graph_.op(v).phase != Phase::update) kernels[pass_[v]] += std::ssize(graph_.kernels(v));
    IdVector<OpId, DeviceId> on = device_;  // [ops of the builder]
    std::map<Pass, OpId> launches;
    for (const auto& [pass, count] : kernels) {
      const std::string lap = pass.lap > 0 ? fmt::format("/{}", pass.lap) : "";
      launches[pass] = copy_.builder().add_op(
          {.name = fmt::format("{}/launch/{}{}", to_text(pass.phase), index(pass.device), lap),
           .kind = "Launch",
           .compute = count * launch,
           .phase = pass.phase,
           .lane = host_pass_lane});
      on.push_back(pass.device);
    }
    for (const OpId v : graph_.ops()) {
      if (graph_.op(v).phase == Phase::update) continue;
      const OpId launching = launches.at(pass_[v]);
      if (is_last(v))
        copy_.builder().add_control(launching, copy_.copy_of(v));
      else if (receives(v))
        copy_.builder().add_control(copy_.copy_of(v), launching);
    }
    return std::move(copy_).placed(on);
  }

 private:
  struct Pass {
    DeviceId device{};
    Phase phase{};
    std::uint32_t lap = 0;
    friend auto operator<=>(const Pass&, const Pass&) = default;
  };

  /// Whether `v` is a first op of its pass and reads a tensor of another device.
  bool receives(OpId v) const {
    const auto reads = graph_.predecessors(v);
    return std::ranges::any_of(reads, [&](OpId u) { return device_[u] != device_[v]; }) &&
           std::ranges::none_of(reads, [&](OpId u) { return pass_[u] == pass_[v]; });
  }
  /// Whether no op of its pass reads the outputs of `v`.
  bool is_last(OpId v) const {
    return std::ranges::none_of(graph_.out_edges(v),
                                [&](EdgeId e) { return pass_[graph_.edge(e).dst] == pass_[v]; });
  }

  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  GraphCopy copy_;
  IdVector<OpId, Pass> pass_;  // [num_ops]
};

/// Kernel launches by the host. Each op waits for a launch op of lane "host", which takes `launch`
/// (per kernel with `per: kernel`). The launches of a device are serial, in the order of the graph;
/// with `threads: one`, those of all devices are, on the first device that has ops. A step is then
/// bound by its device or by its host, and the device idles where it waits for the host.
///   backward_thread: the launches of backward ops are in a lane of their own, "host_backward",
///     which starts after the last launch of a forward op; the launches of updates follow it.
///   per: pass: the launches of a device's forward pass are one op that takes as long as all of
///     them, and so are those of its backward pass; with interleaved chunks, of each chunk. It
///     starts when the pass has received its inputs from other devices (Megatron-LM's host waits
///     for the GPU there), and the last ops of the pass wait for it. Updates, which are few
///     kernels, are not launched.
/// Times of the host's lanes are not divided by a device's `speed`.
/// With `threads: one`, control edges are free (as with control_edges: {as: free}), so that
/// launches of ops on other devices cost no transfer. Source: Daydream (Zhu et al., ATC 2020),
/// section 4.2: CUDA launches are tasks of a CPU thread.
class Host final : public Transform {
 public:
  explicit Host(Options& o) {
    using namespace std::chrono_literals;
    launch_ =
        o.get("launch", Duration{6us},
              "host time per launch; with per: kernel, host_op of the device type if it has one");
    assumed_ = o.raw("launch", "") == nullptr;
    step_ = o.get("step", Duration{}, "host time before the first launch of a step");
    if (launch_ > 1min) o.mistake("launch", "a launch takes at most 60 s");
    if (step_ > 24h) o.mistake("step", "it takes at most 86400 s");
    per_ = read_enum(o, "per", LaunchPer::op, "the unit of a launch");
    threads_ = read_enum(o, "threads", HostThreads::device,
                         "host threads that launch; in model parallelism one Python thread "
                         "launches for all devices");
    backward_thread_ =
        o.get("backward_thread", true,
              "a separate thread launches the backward pass, like PyTorch's autograd");
    sync_ = KindWords::read(o, "sync", {}, "kinds of ops on which the host synchronises");
    graphs_ = o.get("graphs", false, "CUDA graphs: one launch per device and step");
    if (per_ != LaunchPer::pass) return;
    if (threads_ == HostThreads::one) o.mistake("threads", "with 'per: pass' each device has one");
    if (graphs_) o.mistake("graphs", "a graph is one launch: drop 'per: pass'");
    if (step_ > Duration{}) o.mistake("step", "not with 'per: pass'");
    if (!sync_.empty()) o.mistake("sync", "not with 'per: pass'");
  }

  Transformed apply(const OpGraph& graph) const override { return same_ops(graph); }

  std::string no_pipeline(PipelineTraits pipeline) const override {
    if (threads_ == HostThreads::one) return "host: each stage needs a thread: threads: device";
    if (graphs_) return "host: a CUDA graph is a whole step, and a pipeline runs passes";
    if (step_ > Duration{}) return "host: 'step' is once per step, not per micro-batch";
    if (per_ == LaunchPer::pass && pipeline.turns)
      return "host: 'per: pass' needs one forward pass per device, and here the last has two";
    return "";
  }

  std::shared_ptr<const Transform> launching(Duration host_op) const override {
    if (!assumed_ || per_ != LaunchPer::kernel) return nullptr;
    auto same = std::make_shared<Host>(*this);
    same->launch_ = host_op;
    return same;
  }

  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    if (per_ == LaunchPer::pass) return PassLaunches(graph, device).run(launch_);
    return Launching(*this, graph, device).run();
  }

 private:
  /// The lanes of the host, as the text of names of ops and of lanes.
  static constexpr std::string_view main_lane = "host", backward_lane = "host_backward";

  class Launching {
   public:
    Launching(const Host& options, const OpGraph& graph, const IdVector<OpId, DeviceId>& device)
        : o_(options),
          graph_(graph),
          device_(device),
          copy_(graph),
          waits_(o_.sync_.of_kinds(graph)) {}

    PlacedStep run() && {
      IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
      for (const OpId v : graph_.ops()) {
        const OpId launch = launch_of(v);
        const OpId made = copy_.add_whole(v, tensors);
        on_.push_back(device_[v]);
        copy_.builder().add_control(launch, made);
        if (waits_[graph_.op(v).kind]) thread(v).after = made;
      }
      copy_.add_edges(tensors);
      PlacedStep step = std::move(copy_).placed(on_);
      if (o_.threads_ == HostThreads::one) step.graph = step.graph.with_free_controls();
      return step;
    }

   private:
    struct Thread {
      DeviceId device{};
      std::optional<OpId> last{};   ///< its last launch
      std::optional<OpId> after{};  ///< an op that it waits for before the next one
      bool backward = false;        ///< the last launch was of a backward op
    };

    Thread& thread(OpId v) {
      const DeviceId key = o_.threads_ == HostThreads::one ? DeviceId{} : device_[v];
      return threads_.try_emplace(key, Thread{.device = device_[v]}).first->second;
    }

    OpId launch_of(OpId v) {
      Thread& t = thread(v);
      if (o_.graphs_ && t.last) return *t.last;
      const bool backward = o_.backward_thread_ && graph_.op(v).phase == Phase::backward;
      const std::int64_t kernels =
          o_.per_ == LaunchPer::kernel ? std::ssize(graph_.kernels(v)) : std::int64_t{1};
      const Duration once = t.last ? Duration{} : o_.step_;
      const OpId launch = copy_.builder().add_op(
          {.name = fmt::format("{}/{}", graph_.name(v), o_.graphs_ ? "graph_launch" : "launch"),
           .kind = "Launch",
           .compute = once + (o_.graphs_ ? 1 : kernels) * o_.launch_,
           .phase = graph_.op(v).phase,
           .lane = backward ? backward_lane : main_lane,
           .module = graph_.module(v)});
      on_.push_back(t.device);
      if (t.last) copy_.builder().add_control(*t.last, launch);
      if (t.after) copy_.builder().add_control(*t.after, launch);
      t.last = launch;
      t.after.reset();
      return launch;
    }

    const Host& o_;
    const OpGraph& graph_;
    const IdVector<OpId, DeviceId>& device_;
    GraphCopy copy_;
    std::vector<bool> waits_;             // [kinds of the graph]
    IdVector<OpId, DeviceId> on_;         // [ops of the builder]
    std::map<DeviceId, Thread> threads_;  // by device; one entry with threads: one
  };

  Duration launch_{}, step_{};
  bool assumed_ = false;  ///< `launch_`, which was not given
  LaunchPer per_{};
  HostThreads threads_{};
  bool backward_thread_ = true, graphs_ = false;
  KindWords sync_;
};

}  // namespace

std::unique_ptr<Transform> make_host(Options& o) { return std::make_unique<Host>(o); }

}  // namespace baechi
