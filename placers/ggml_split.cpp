#include <numeric>

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "placers/layer_line.h"

namespace baechi {
namespace {

/// llama.cpp's split by layers: entries are the numbered layers in their order, then the output
/// (all behind them). Entry i of those on GPUs goes to the first GPU whose cumulative share is
/// above i / entries, in floating point. The last `gpu_layers` entries are on GPUs; what is before
/// them, and what is before the first layer, is on the CPU, the last device whose type begins with
/// cpu. Without one all is on GPUs. Without modules every group or op is a layer. Ignores memory.
/// Source: llama.cpp, src/llama-model.cpp (load_tensors).
///
/// `fit` is llama.cpp's --fit: where that split leaves `margin` free on each GPU, it stays. Else,
/// from the last GPU to the first, each takes as many entries as leave its margin free, and the
/// first entries are on the CPU. With experts all are on the CPU at first; then, from the first GPU
/// on, layers get theirs back while they fit. Source: llama.cpp, common/fit.cpp. Differs: the
/// context stays, and no layer is divided.
class GgmlSplit final : public Placer {
 public:
  explicit GgmlSplit(Options& o) {
    gpu_layers_ = o.get("gpu_layers", std::numeric_limits<std::int64_t>::max(),
                        "-ngl: entries on GPUs, from the last on");
    if (const Options::Value* given =
            o.raw("tensor_split", "-ts: a list of shares of the GPUs [their memory]"))
      for (const auto& [key, share] : given->children) {
        const auto value = parse_number<double>(share.text);
        if (!value || !(*value >= 0.0)) o.mistake("tensor_split", "not a list of numbers");
        shares_.push_back(value.value_or(0.0));
      }
    fit_ = o.get("fit", false, "llama.cpp's --fit: as many entries on GPUs as their memory takes");
    constexpr Bytes usual{std::int64_t{1} << 30U};
    margin_ = o.get("margin", usual, "with fit: left free on each GPU");
    if (!fit_ && margin_ != usual) o.mistake("margin", "needs fit=true");
    if (fit_ && (!shares_.empty() || gpu_layers_ != std::numeric_limits<std::int64_t>::max()))
      o.mistake("fit", "cannot be combined with gpu_layers or tensor_split");
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    return fit_ && p.graph.has_modules() ? fitted(p) : split(p);
  }

 private:
  static bool is_expert(const OpGraph& graph, OpId v) {
    return graph.module(v).find(".expert") != std::string_view::npos;
  }

  Placement fitted(const Problem& p) const {
    const OpGraph& graph = p.graph;
    Placement result = split(p);
    const auto [gpus, cpu] = devices_of(p.cluster);
    const ModelLayers all(graph, [](OpId) { return false; });
    const ModelLayers others(graph, [&](OpId v) { return is_expert(graph, v); }, &all);
    const LayerNeeds needs(graph, all), without_experts(graph, others);
    std::vector<Bytes> held(all.size()), experts(all.size());
    for (const OpId v : graph.ops())
      (is_expert(graph, v) ? experts : held)[all.of[v]] += graph.op(v).persistent;
    // What a GPU needs for layers [first, last), of which those before `whole` have their experts.
    const auto fits = [&](std::size_t g, std::size_t first, std::size_t last, std::size_t whole) {
      Bytes sum = (whole > first ? needs : without_experts).transient(first, last) + margin_;
      for (std::size_t l = first; l < last; ++l)
        sum += held[l] + (l < whole ? experts[l] : Bytes{});
      return first == last || sum <= p.cluster.device(gpus[g]).memory;
    };
    std::vector<std::size_t> begin(gpus.size() + 1, all.size()), whole = begin;
    bool kept = true;
    for (std::size_t g = gpus.size(); g-- > 0;) {
      begin[g] = begin[g + 1];
      for (const OpId v : graph.ops())
        if (result.device[v] == gpus[g]) begin[g] = std::min<std::size_t>(begin[g], all.of[v]);
      kept = kept && fits(g, begin[g], begin[g + 1], begin[g + 1]);
    }
    if (kept) return result;
    if (!cpu) throw InfeasibleError("ggml_split: the GPUs are too small, and there is no CPU");
    const std::vector<std::int64_t> entry = entry_of_layers(all);
    const bool dense = std::ranges::all_of(experts, [](Bytes b) { return b == Bytes{}; });
    for (std::size_t g = gpus.size(); g-- > 0;) {
      const std::size_t last = begin[g + 1];
      for (begin[g] = last; begin[g] > 0 && entry[begin[g] - 1] >= 0; --begin[g])
        if (!fits(g, begin[g] - 1, last, dense ? last : 0)) break;
      whole[g] = begin[g];
    }
    for (std::size_t g = 0; g < gpus.size(); ++g)
      while (whole[g] < begin[g + 1] && fits(g, begin[g], begin[g + 1], whole[g] + 1)) ++whole[g];
    for (const OpId v : graph.ops()) {
      result.device[v] = *cpu;
      for (std::size_t g = 0; g < gpus.size(); ++g)
        if (all.of[v] >= begin[g] && all.of[v] < (is_expert(graph, v) ? whole[g] : begin[g + 1]))
          result.device[v] = gpus[g];
    }
    return result;
  }

  struct Devices {
    std::vector<DeviceId> gpus;
    std::optional<DeviceId> cpu;
  };
  static Devices devices_of(const Cluster& cluster) {
    Devices devices;
    for (const DeviceId d : cluster.devices())
      if (cluster.device(d).is_cpu())
        devices.cpu = d;
      else
        devices.gpus.push_back(d);
    if (devices.gpus.empty()) throw InfeasibleError("ggml_split: the cluster has no GPU");
    return devices;
  }

  Placement split(const Problem& p) const {
    const auto [gpus, cpu] = devices_of(p.cluster);
    const auto [entry, entries] = entries_of(p.graph);
    const std::int64_t on_gpus = cpu ? std::min(gpu_layers_, entries) : entries;
    const std::int64_t start = entries - on_gpus;
    const std::vector<double> until = cumulative(p.cluster, gpus);
    Placement result;
    for (const OpId v : p.graph.ops()) {
      const std::int64_t i = cpu ? entry[v] : std::max<std::int64_t>(0, entry[v]);
      const auto found = std::ranges::upper_bound(
          until, static_cast<double>(i - start) / static_cast<double>(on_gpus));
      result.device.push_back(
          i < start || i < 0
              ? *cpu
              : gpus[std::min(static_cast<std::size_t>(found - until.begin()), gpus.size() - 1)]);
    }
    return result;
  }

  struct Entries {
    IdVector<OpId, std::int64_t> of;  ///< [num_ops] -1: before the first layer
    std::int64_t count = 0;           ///< with the output
  };
  static Entries entries_of(const OpGraph& graph) {
    Entries result;
    if (!graph.has_modules()) {
      const ColocationUnits units(graph);
      for (const OpId v : graph.ops())
        result.of.push_back(static_cast<std::int64_t>(index(units.of(v))));
      result.count = static_cast<std::int64_t>(units.size());
      return result;
    }
    const ModelLayers layers(graph, [](OpId) { return false; });
    const std::vector<std::int64_t> entry = entry_of_layers(layers);
    result.count = std::ranges::count_if(layers.names, is_numbered) + 1;
    for (const OpId v : graph.ops()) result.of.push_back(entry[layers.of[v]]);
    return result;
  }

  /// [layers] -1: before the numbered ones.
  static std::vector<std::int64_t> entry_of_layers(const ModelLayers& layers) {
    std::vector<std::int64_t> entry(layers.size(), -1);
    std::int64_t count = 0;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (is_numbered(layers.names[l]))
        entry[l] = count++;
      else if (count > 0)
        entry[l] = std::numeric_limits<std::int64_t>::max();
    }
    for (std::int64_t& e : entry) e = std::min(e, count);
    return entry;
  }

  std::vector<double> cumulative(const Cluster& cluster, const std::vector<DeviceId>& gpus) const {
    std::vector<double> shares = shares_;
    if (shares.empty())
      for (const DeviceId d : gpus)
        shares.push_back(static_cast<double>(cluster.device(d).memory.count));
    shares.resize(gpus.size());
    std::partial_sum(shares.begin(), shares.end(), shares.begin());
    const double sum = shares.back();
    if (!(sum > 0.0)) throw InfeasibleError("ggml_split: the shares of the GPUs are 0");
    for (double& share : shares) share /= sum;
    return shares;
  }

  bool fit_ = false;
  Bytes margin_{};
  std::int64_t gpu_layers_ = 0;
  std::vector<double> shares_;
};

}  // namespace

std::unique_ptr<Placer> make_ggml_split(Options& options) {
  return std::make_unique<GgmlSplit>(options);
}

}  // namespace baechi
