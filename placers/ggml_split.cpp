#include <numeric>

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "placers/model_layers.h"

namespace baechi {
namespace {

/// llama.cpp's split by layers: entries are the numbered layers in their order, then the output
/// (all behind them). Entry i of those on GPUs goes to the first GPU whose cumulative share is
/// above i / entries, in floating point. The last `gpu_layers` entries are on GPUs; what is before
/// them, and what is before the first layer, is on the CPU, the last device whose type begins with
/// cpu. Without one all is on GPUs. Without modules every group or op is a layer. Ignores memory.
/// Source: llama.cpp, src/llama-model.cpp (load_tensors).
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
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    std::optional<DeviceId> cpu;
    std::vector<DeviceId> gpus;
    for (const DeviceId d : p.cluster.devices())
      if (p.cluster.device(d).is_cpu())
        cpu = d;
      else
        gpus.push_back(d);
    if (gpus.empty()) throw InfeasibleError("ggml_split: the cluster has no GPU");
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

 private:
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
    std::vector<std::int64_t> entry(layers.size(), -1);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (is_numbered(layers.names[l]))
        entry[l] = result.count++;
      else if (result.count > 0)
        entry[l] = std::numeric_limits<std::int64_t>::max();
    }
    for (std::int64_t& e : entry) e = std::min(e, result.count);
    ++result.count;
    for (const OpId v : graph.ops()) result.of.push_back(entry[layers.of[v]]);
    return result;
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

  std::int64_t gpu_layers_ = 0;
  std::vector<double> shares_;
};

}  // namespace

std::unique_ptr<Placer> make_ggml_split(Options& options) {
  return std::make_unique<GgmlSplit>(options);
}

}  // namespace baechi
