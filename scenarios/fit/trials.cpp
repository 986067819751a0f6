#include "scenarios/fit/trials.h"

#include <cmath>

#include "scenarios/read/device_table.h"
#include "sim/collectives/collective_models.h"
#include "sim/pipeline/pipeline.h"

namespace baechi {
namespace {

/// Tokens of a pass over a prompt: llama.cpp's n_ubatch; vLLM's max_num_batched_tokens, for which
/// it sets memory aside. vLLM has 8192 on GPUs of 70 GiB, which is not modelled.
std::int64_t prompt_part(const FitVariant& v) { return v.vllm ? 2048 : 512; }
constexpr std::size_t parts_in_flight = 4;  ///< llama.cpp's GGML_SCHED_MAX_COPIES
constexpr std::int64_t least_copied = 32;   ///< tokens of a pass with copies of host weights
constexpr double rule_of_decode = 0.4;      ///< as Release::decode, where a type says nothing

/// Numbers of current releases, which replace those of a device type; 0: its own stay.
/// Sources and errors on GPUs and sources left out: notes/fit-against-published.md.
struct Release {
  GemvNumbers gemv{};
  double decode = 0.0;  ///< DeviceModel::attention_decode; where that is 0, too, the rule's
  Duration host{};      ///< for each token
};
constexpr std::size_t vllm = 2;
constexpr std::array<Release, vllm + 1> releases = {
    {{},
     {.decode = 0.75},
     {.gemv = {.fp16 = 0.911, .q4 = 0.72, .unpacked = 0.85},
      .decode = 0.6,
      .host = Duration{900'000}}}};

std::shared_ptr<const DeviceModel> under(const Release& release, const DeviceModel& gpu) {
  auto model = std::make_shared<DeviceModel>(gpu);
  if (release.gemv.fp16 > 0.0) model->gemv = release.gemv;
  if (release.decode > 0.0 || model->attention_decode == 0.0)
    model->attention_decode = std::max(release.decode, rule_of_decode);
  // The launch of a CUDA graph's kernel. Chips for data centres take longer: capabilities 6.0
  // to 10.0.
  const double capability = gpu.compute_capability;
  model->launch = Duration{
      capability > 0.0 && capability < 11.0 && capability == std::floor(capability) ? 5'500
                                                                                    : 3'500};
  model->host_step = release.host;
  return model;
}

}  // namespace

/// The graphs of a case, and what its layers hold.
class FitGraphs {
 public:
  FitGraphs(const FitQuestion& question, const FitCase& asked)
      : question_(question),
        experts_(asked.elsewhere.experts),
        optimizer_(asked.elsewhere.optimizer),
        vllm_(asked.variant.vllm) {
    const FitModel& model = question.model;
    decode = std::make_shared<const Trace>(model.decode(asked.variant));
    if (model.writes) {
      const std::int64_t tokens = std::max<std::int64_t>(
          1, std::min(prompt_part(asked.variant), asked.variant.context) / asked.variant.batch);
      prefill = std::make_shared<const Trace>(
          model.prefill(asked.variant, asked.variant.context - tokens, tokens));
    }
    for (const auto* trace : {&decode, &prefill})
      if (*trace) {
        const OpGraph& graph = (*trace)->graph;
        layers.push_back(std::make_unique<const ModelLayers>(
            graph, [&](OpId v) { return is_elsewhere(graph, v); },
            layers.empty() ? nullptr : layers.front().get()));
        needs_.emplace_back(graph, *layers.back());
      }
    const OpGraph& graph = decode->graph;
    weights.resize(size());
    cache.resize(size());
    for (const OpId v : graph.ops()) {
      const bool sent = asked.elsewhere.optimizer && graph.op(v).phase == Phase::backward;
      const Bytes held = sent ? Bytes{} : graph.op(v).persistent;  // gradients go to the host
      const std::uint32_t layer = layers[0]->of[v];
      (layer == ModelLayers::none ? on_host : weights[layer]) += held - graph.cache(v);
      if (layer != ModelLayers::none) cache[layer] += graph.cache(v);
    }
  }

  std::size_t size() const { return layers[0]->size(); }
  Bytes transient(std::size_t first, std::size_t last) const {
    const auto [found, made] = transient_.try_emplace({first, last});
    if (made)
      for (const LayerNeeds& pass : needs_)
        found->second = std::max(found->second, pass.transient(first, last));
    return found->second;
  }
  /// Whether an op is in host memory however layers are divided: the embedding table, as llama.cpp
  /// has it, unless the head reads it, too, or vLLM runs the model.
  bool is_elsewhere(const OpGraph& graph, OpId v) const {
    if (optimizer_ && graph.op(v).phase == Phase::update) return true;
    if (!question_.model.writes) return false;
    const std::string_view module = graph.module(v);
    if (const std::size_t at = module.find(".expert"); experts_ > 0 && at != module.npos) {
      const std::string_view layer = module.substr(0, at);
      const std::size_t digits = layer.find_last_not_of("0123456789") + 1;
      return parse_number<std::int64_t>(layer.substr(digits)).value_or(0) < experts_;
    }
    const GroupId group = graph.op(v).group;
    return !vllm_ && graph.module(v) == "embed_tokens" &&
           (group == no_group || graph.members(group).size() == 1);
  }

  std::shared_ptr<const Trace> decode, prefill;
  std::vector<std::unique_ptr<const ModelLayers>> layers;  ///< of both graphs
  std::vector<Bytes> weights, cache;                       ///< [layers]
  Bytes on_host{};                                         ///< of ops elsewhere

 private:
  const FitQuestion& question_;
  std::int64_t experts_;
  bool optimizer_, vllm_;
  std::vector<LayerNeeds> needs_;
  mutable std::map<std::pair<std::size_t, std::size_t>, Bytes> transient_;
};

std::string collectives_over(std::string_view link) {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> measured{
      {{"pcie4_host", "l40s_nccl"},
       {"pcie4", "l40s_nccl"},
       {"pcie5", "rtx_pro_6000_nccl"},
       {"nvlink3", "a100_nccl"},
       {"nvlink4", "h100_nccl"},
       {"nvlink5", "b200_nccl"},
       {"infinity_fabric", "mi300x_rccl"}}};
  const auto found =
      std::ranges::find(measured, link, &std::pair<std::string_view, const char*>::first);
  return found == measured.end() ? "" : found->second;
}

FitTrials::FitTrials(const FitQuestion& question) : question_(question) {
  ClusterChoice cluster;
  for (DeviceChoice group : question.gpus) {
    gpus_ += group.count;
    limits_.insert(limits_.end(), group.count, group.memory);
    const auto measured = built_in_devices().devices.find(group.kind + "_llamacpp");
    if (question.model.writes && measured != built_in_devices().devices.end()) {
      group.kind = measured->first;
      group.model = measured->second;
    }
    cluster.devices.push_back(std::move(group));
  }
  // A home for each GPU: each has lanes of its own to the host, on which weights come.
  DeviceChoice host{.count = gpus_, .name = "host", .kind = question.host_kind};
  host.memory = unlimited_memory;
  if (const auto found = built_in_devices().devices.find(host.kind);
      found != built_in_devices().devices.end())
    host.model = found->second;
  const std::size_t at = cluster.devices.size();
  cluster.devices.push_back(std::move(host));
  cluster.link = question.between;
  if (const std::string measured = collectives_over(question.link); !measured.empty())
    cluster.collectives = make_collectives(built_in_devices().collectives.at(measured).section);
  for (std::size_t g = 0; g < at; ++g)
    cluster.links.push_back({.from = g, .to = at, .link = question.to_host});
  if (question.disk) {
    cluster.devices.push_back({.name = "disk", .kind = "disk", .memory = unlimited_memory});
    cluster.links.push_back({.from = at, .to = at + 1, .link = *question.disk});
  }
  clusters_.fill(cluster);
  for (std::size_t r = 0; r < releases.size(); ++r)
    for (std::size_t g = 0; g < at; ++g) {
      DeviceChoice& gpu = clusters_[r].devices[g];
      gpu.memory = std::max(Bytes{}, gpu.memory - reserve({.vllm = r == vllm}, gpu.memory));
      if (!question.model.writes) continue;
      if (releases[r].gemv.fp16 > 0.0) {
        gpu.kind = question.gpus[g].kind;
        gpu.model = question.gpus[g].model;
      }
      gpu.model = under(releases[r], *gpu.model);
    }
}

Bytes FitTrials::reserve(const FitVariant& v, Bytes limit) const {
  const auto graphs = static_cast<double>(limit.count) * (1.0 - vllm_memory_share);
  return question_.reserve + (v.vllm ? Bytes{std::llround(graphs)} : Bytes{});
}

Bytes FitTrials::lacking(const FitCase& asked) const {
  const FitGraphs graphs(question_, asked);
  return lacking(asked, graphs);
}

FitWay FitTrials::way(const std::string& name, FitCase asked) {
  if (asked.elsewhere.experts > 0) {
    const std::int64_t all = asked.elsewhere.experts;
    std::int64_t bad = 0;  // layers; with so few on the host GPUs lack memory
    while (asked.elsewhere.experts - bad > 1) {
      FitCase fewer = asked;
      fewer.elsewhere.experts = bad + (asked.elsewhere.experts - bad) / 2;
      const FitGraphs graphs(question_, fewer);
      if (line(fewer, graphs, 0, nullptr).lacking() <= Bytes{})
        asked = fewer;
      else
        bad = fewer.elsewhere.experts;
    }
    FitWay way = way_with(name, asked);
    way.expert_layers = asked.elsewhere.experts;
    way.cpu_experts = asked.elsewhere.experts < all
                          ? fmt::format(" --n-cpu-moe {}", asked.elsewhere.experts)
                          : " --cpu-moe";
    if (asked.elsewhere.experts < all)
      way.name = fmt::format("{} of {} layers", name, asked.elsewhere.experts);
    return way;
  }
  return way_with(name, asked);
}

FitWay FitTrials::way_with(const std::string& name, const FitCase& asked) {
  const FitGraphs graphs(question_, asked);
  FitWay way{.name = name, .variant = asked.variant, .lacks = lacking(asked, graphs)};
  std::size_t waiting = 0;
  if (asked.elsewhere.prefetch) {
    waiting = std::min(least_waiting(asked, graphs), graphs.size());
    way.on_disk =
        static_cast<std::size_t>(std::ranges::count(which_on_disk(asked, graphs, waiting), true));
    way.name = fmt::format("{} {} layers{}{}", name, waiting,
                           way.on_disk > 0 ? fmt::format(", {} on disk", way.on_disk) : "",
                           *asked.elsewhere.prefetch > 0 ? ", prefetched" : "");
  }
  way.waiting = waiting_bytes(graphs, waiting);
  if (way.lacks > Bytes{}) {
    explain_lack(asked, graphs, waiting, way);
    return way;
  }
  simulate(asked, graphs, waiting, way);
  return way;
}

std::int64_t FitTrials::largest(FitCase asked, std::int64_t step, std::int64_t most,
                                std::int64_t FitVariant::* value) const {
  const auto fits = [&](std::int64_t n) {
    asked.variant.*value = n * step;
    return lacking(asked) <= Bytes{};
  };
  std::int64_t good = 0, bad = 1;
  while (bad * step <= most && fits(bad)) good = bad, bad *= 2;
  bad = std::min(bad, most / step + 1);
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good * step;
}

std::vector<bool> FitTrials::which_wait(const FitGraphs& graphs, std::size_t count) {
  std::vector<std::size_t> numbered;
  for (std::size_t l = 0; l < graphs.size(); ++l)
    if (is_numbered(graphs.layers[0]->names[l])) numbered.push_back(l);
  std::vector<bool> waits(graphs.size());
  count = std::min(count, numbered.size());
  for (std::size_t i = 0; i < count; ++i)
    waits[numbered[(i + 1) * numbered.size() / count - 1]] = true;
  return waits;
}

Bytes FitTrials::waiting_bytes(const FitGraphs& graphs, std::size_t count) {
  const std::vector<bool> waits = which_wait(graphs, count);
  Bytes sum;
  for (std::size_t l = 0; l < graphs.size(); ++l)
    if (waits[l]) sum += graphs.weights[l];
  return sum;
}

Bytes FitTrials::lacks_on_host(const FitCase& asked, const FitGraphs& graphs, std::size_t count,
                               std::vector<bool>* on_disk) const {
  Bytes over = graphs.on_host - question_.host +
               Bytes{asked.variant.tensor * waiting_bytes(graphs, count).count};
  if (!question_.disk || over <= Bytes{} || count == 0) return over;
  const std::vector<bool> waits = which_wait(graphs, count);
  Bytes largest;
  for (std::size_t l = 0; l < graphs.size(); ++l)
    if (waits[l]) largest = std::max(largest, graphs.weights[l]);
  // What comes from the disk is twice on the host: in and out.
  over += Bytes{2 * (asked.elsewhere.prefetch.value_or(0) + 1) * largest.count};
  for (std::size_t l = graphs.size(); l-- > 0 && over > Bytes{};) {
    if (!waits[l]) continue;
    over = over - graphs.weights[l];
    if (on_disk != nullptr) (*on_disk)[l] = true;
  }
  return over;
}

std::vector<bool> FitTrials::which_on_disk(const FitCase& asked, const FitGraphs& graphs,
                                           std::size_t count) const {
  std::vector<bool> on_disk(graphs.size());
  lacks_on_host(asked, graphs, count, &on_disk);
  return on_disk;
}

Line FitTrials::line(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
                     const CostedGraph* costs) const {
  const std::vector<bool> waits = which_wait(graphs, waiting);
  Bytes largest;
  std::vector<Bytes> held;
  for (std::size_t l = 0; l < graphs.size(); ++l) {
    held.push_back(graphs.cache[l] + (waits[l] ? Bytes{} : graphs.weights[l]));
    if (waits[l]) largest = std::max(largest, graphs.weights[l]);
  }
  const std::int64_t buffers = asked.elsewhere.prefetch.value_or(0) + 1;
  std::vector<LineDevice> devices;
  for (std::size_t d = 0; d < (asked.variant.tensor > 1 ? 1 : gpus_); ++d)
    devices.push_back({.memory = limits_[d] - reserve(asked.variant, limits_[d]),
                       .held = held,
                       .besides = {buffers * largest.count},
                       .times = times(graphs, costs, static_cast<DeviceId>(d))});
  if (asked.elsewhere.layers)
    devices.insert(devices.begin(), {.memory = question_.host - graphs.on_host,
                                     .held = held,
                                     .times = times(graphs, costs, static_cast<DeviceId>(gpus_))});
  return {std::move(devices), graphs.size(),
          [&graphs](std::size_t a, std::size_t b) { return graphs.transient(a, b); }};
}

std::vector<Duration> FitTrials::times(const FitGraphs& graphs, const CostedGraph* costs,
                                       DeviceId d) {
  std::vector<Duration> sum(graphs.size());
  if (costs != nullptr)
    for (const OpId v : graphs.decode->graph.ops())
      if (const std::uint32_t layer = graphs.layers[0]->of[v]; layer != ModelLayers::none)
        sum[layer] += costs->step_costs->compute(v, d);
  return sum;
}

std::size_t FitTrials::least_waiting(const FitCase& asked, const FitGraphs& graphs) const {
  std::size_t bad = 0, good = graphs.size() + 1;
  if (line(asked, graphs, 0, nullptr).lacking() <= Bytes{}) return 0;
  while (good - bad > 1) {
    const std::size_t middle = bad + (good - bad) / 2;
    (line(asked, graphs, middle, nullptr).lacking() <= Bytes{} ? good : bad) = middle;
  }
  return good;
}

Bytes FitTrials::lacking(const FitCase& asked, const FitGraphs& graphs) const {
  const Elsewhere& e = asked.elsewhere;
  const std::size_t waiting = e.prefetch ? least_waiting(asked, graphs) : 0;
  const bool host = e.layers || e.experts > 0 || e.prefetch || e.optimizer;
  return std::max(line(asked, graphs, waiting, nullptr).lacking(),
                  host ? lacks_on_host(asked, graphs, waiting) : Bytes{});
}

std::shared_ptr<const CostedGraph> FitTrials::costed(std::shared_ptr<const Trace> trace,
                                                     const FitCase& asked,
                                                     const Waiting& waiting) const {
  const ClusterChoice& cluster = cluster_of(asked.variant);
  PreparedGraph prepared = prepare({trace, &trace->graph}, cluster, {});
  if (!waiting.modules.empty() || asked.elsewhere.optimizer) {
    Options options("offload");
    for (const auto& [key, modules] :
         {std::pair("modules", &waiting.modules), {"on_disk", &waiting.on_disk}}) {
      Options::Value patterns;
      for (const std::string& module : *modules)
        patterns.children.push_back({"", {module, "", {}}});
      if (!modules->empty()) options.set(key, std::move(patterns));
    }
    if (!waiting.on_disk.empty()) options.set("disk", {std::to_string(2 * gpus_), "", {}});
    if (asked.elsewhere.optimizer) options.set("optimizer", {"true", "", {}});
    options.set("prefetch", {std::to_string(asked.elsewhere.prefetch.value_or(0)), "", {}});
    for (const char* key : {"home", "homes"}) options.set(key, {std::to_string(gpus_), "", {}});
    prepared.after_placing.push_back(make_transform("offload", std::move(options)));
  }
  return std::make_shared<const CostedGraph>(
      std::make_shared<const PreparedGraph>(std::move(prepared)), cluster);
}

FitTrials::Waiting FitTrials::waiting_modules(const FitCase& asked, const FitGraphs& graphs,
                                              std::size_t count) const {
  const std::vector<bool> waits = which_wait(graphs, count),
                          on_disk = which_on_disk(asked, graphs, count);
  Waiting waiting;
  for (std::size_t l = 0; l < graphs.size(); ++l) {
    if (waits[l]) waiting.modules.push_back(graphs.layers[0]->names[l]);
    if (on_disk[l]) waiting.on_disk.push_back(graphs.layers[0]->names[l]);
  }
  return waiting;
}

StepResult FitTrials::step(std::shared_ptr<const Trace> trace, const ModelLayers& layers,
                           const FitCase& asked, const Waiting& waiting,
                           const std::vector<DeviceId>& device, EngineOptions engine,
                           bool borrowed) const {
  Placement placement;
  for (const OpId v : trace->graph.ops()) {
    const std::uint32_t layer = layers.of[v];
    const bool follows =
        layer == ModelLayers::none &&
        (asked.elsewhere.optimizer || (borrowed && trace->graph.module(v) != "embed_tokens"));
    placement.device.push_back(follows ? placement.device[trace->graph.predecessors(v).front()]
                               : layer == ModelLayers::none ? static_cast<DeviceId>(gpus_)
                                                            : device[layer]);
  }
  engine.transfers = Transfers::duplex;
  // A device without peer access waits for its copies, but not for weights that are prefetched, for
  // gradients to the host, nor between the parts of a prompt.
  engine.overlap = asked.elsewhere.prefetch.has_value() || asked.elsewhere.optimizer ||
                   engine.queue == ReadyOrder::program;
  const Experiment experiment(costed(std::move(trace), asked, waiting), engine);
  return experiment.step(std::move(placement)).simulate();
}

void FitTrials::simulate(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
                         FitWay& way) {
  const std::shared_ptr<const CostedGraph> costs =
      costed(graphs.decode, {.variant = asked.variant}, {});
  if (evidence.empty()) evidence = evidence_of(*costs->graph, cluster_of(asked.variant));
  const Duration hop = costs->graph->step->num_tensors() == 0
                           ? Duration{}
                           : costs->step_costs->transfer(TensorId{}, DeviceId{0}, DeviceId{1});
  const Line devices = line(asked, graphs, waiting, costs.get());
  const std::vector<std::size_t> first = devices.divided(hop).value_or(devices.filled());
  std::vector<DeviceId> device(graphs.size());
  const std::size_t host = asked.elsewhere.layers ? 1 : 0;
  for (std::size_t d = 0; d + 1 < first.size(); ++d)
    for (std::size_t l = first[d]; l < first[d + 1]; ++l)
      device[l] = static_cast<DeviceId>(d < host ? gpus_ : d - host);
  way.layers.resize(asked.variant.tensor > 1 ? 1 : gpus_);
  for (std::size_t l = 0; l < graphs.size(); ++l)
    if (is_numbered(graphs.layers[0]->names[l]))
      ++(index(device[l]) == gpus_ ? way.cpu_layers : way.layers[index(device[l])]);
  const Waiting modules = waiting_modules(asked, graphs, waiting);
  const StepResult one = step(graphs.decode, *graphs.layers[0], asked, modules, device);
  const StepResult most =
      graphs.prefill ? step(graphs.prefill, *graphs.layers[1], asked, modules, device) : one;
  const std::vector<bool> waits = which_wait(graphs, waiting),
                          on_disk = which_on_disk(asked, graphs, waiting);
  for (std::size_t d = 0; d < gpus_; ++d) {
    FitMemory& memory = way.memory.emplace_back();
    const auto id = static_cast<DeviceId>(asked.variant.tensor > 1 ? 0 : d);
    memory = {.device = fmt::format("gpu{}", question_.number(d)),
              .limit = limits_[d],
              .reserve = reserve(asked.variant, limits_[d])};
    for (std::size_t l = 0; l < graphs.size(); ++l) {
      if (device[l] != id) continue;
      memory.cache += graphs.cache[l];
      (waits[l] ? memory.waiting : memory.weights) += graphs.weights[l];
    }
    memory.buffers =
        std::max(one.devices[id].peak, most.devices[id].peak) - memory.weights - memory.cache;
  }
  for (const StepResult* result : std::array{&one, &most})
    if (result->oom) way.lacks = std::max(way.lacks, result->oom->needed - result->oom->free);
  way.fits = way.lacks <= Bytes{};
  way.step = one.makespan + host_time(asked.variant);
  way.per_second = static_cast<double>(question_.model.writes
                                           ? asked.variant.batch
                                           : std::max<std::int64_t>(1, graphs.decode->batch)) *
                   1e9 / static_cast<double>(std::max<std::int64_t>(1, way.step.count()));
  for (std::size_t l = 0; l < graphs.size(); ++l)
    way.map.emplace_back(graphs.layers[0]->names[l], on_disk[l] ? gpus_ + 1
                                                     : waits[l] ? gpus_
                                                                : index(device[l]));
  way.table = graphs.on_host;
  if (graphs.prefill)
    way.first_token = prompt(asked, graphs, waiting, device) + host_time(asked.variant);
}

Duration FitTrials::prompt(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
                           std::vector<DeviceId> device) const {
  const std::int64_t all = std::min(question_.prompt, asked.variant.context),
                     part = prompt_part(asked.variant);
  std::vector<Trace> parts;
  for (std::int64_t before = 0; before < all; before += part)
    parts.push_back(question_.model.prefill(asked.variant, before, std::min(part, all - before)));
  const auto layers_of = [&](const OpGraph& graph) {
    return ModelLayers(
        graph, [&](OpId v) { return graphs.is_elsewhere(graph, v); }, graphs.layers.front().get());
  };
  Duration sum{};
  Waiting modules = waiting_modules(asked, graphs, waiting);
  const bool borrowed = std::min(all, part) * asked.variant.batch >= least_copied;
  for (std::size_t l = 0; l < graphs.size() && borrowed; ++l)
    if (index(device[l]) == gpus_) {
      modules.modules.push_back(graphs.layers[0]->names[l]);
      device[l] = DeviceId{};
    }
  for (std::size_t l = 0; l < graphs.size() && borrowed; ++l)
    if (asked.elsewhere.experts > static_cast<std::int64_t>(l))
      modules.modules.push_back(fmt::format("layer_{}.expert*", l));
  if (parts.size() == 1 || !modules.modules.empty()) {  // weights that wait are copied in each part
    for (Trace& part : parts) {
      const auto trace = std::make_shared<const Trace>(std::move(part));
      sum += step(trace, layers_of(trace->graph), asked, modules, device, {.enforce_memory = false},
                  borrowed)
                 .makespan;
    }
    return sum;
  }
  ModelLayers layers = layers_of(parts.front().graph);
  std::vector<OpGraph> passes;
  for (Trace& part : parts) passes.push_back(std::move(part.graph));
  auto trace = std::make_shared<Trace>(std::move(parts.front()));
  trace->graph = joined_passes(passes, parts_in_flight);
  const IdVector<OpId, std::uint32_t> first = std::exchange(layers.of, {});
  for (const OpId v : trace->graph.ops())
    layers.of.push_back(first[trace->graph.micro_batch(v).first]);
  return step(std::move(trace), layers, asked, modules, device,
              {.queue = ReadyOrder::program, .enforce_memory = false})
      .makespan;
}

void FitTrials::explain_lack(const FitCase& asked, const FitGraphs& graphs, std::size_t waiting,
                             FitWay& way) const {
  const Line layers = line(asked, graphs, waiting, nullptr);
  const std::vector<std::size_t> first = layers.filled();
  const std::size_t from = first[first.size() - 2];
  const std::vector<bool> waits = which_wait(graphs, waiting);
  FitMemory& memory = way.memory.emplace_back();
  memory = {.device = fmt::format("gpu{}", question_.number(gpus_ - 1)),
            .limit = limits_.back(),
            .reserve = reserve(asked.variant, limits_.back())};
  for (std::size_t l = from; l < graphs.size(); ++l) {
    memory.cache += graphs.cache[l];
    if (!waits[l]) memory.weights += graphs.weights[l];
  }
  memory.buffers = graphs.transient(from, graphs.size());
}

}  // namespace baechi
