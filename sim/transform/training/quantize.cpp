#include "sim/number_format.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Weights of products, and caches, in formats of few bits; what ops write stays as it is. The
/// kernel of few rows reads the format (GemvNumbers). `fused`: so does that of many rows;
/// `separate`: a kernel before it writes a copy in 16 bits, which takes workspace. Trained weights
/// stay; a graph in which none is frozen, as adapters freeze them, is refused. Sources: llama.cpp;
/// Dettmers et al., "QLoRA", NeurIPS 2023.
class Quantize final : public Transform {
 public:
  explicit Quantize(Options& o)
      : except_(KindWords::read(o, "except", {"embed", "lm_head", "norm", "router"},
                                "words in names or kinds of ops whose weights stay")) {
    const std::string weights =
        o.get("weights", "nf4", fmt::format("format: none, {}", weight_format_names()));
    if (weights != "none" && !(weights_ = find_weight_format(weights)))
      o.mistake("weights", fmt::format("'{}' is none of {}", weights, weight_format_names()));
    const std::string cache = o.get("cache", "", "format of the cache, such as q8_0 or fp8");
    if (!cache.empty() && !(cache_ = find_number_format(cache)))
      o.mistake("cache", fmt::format("'{}' is no format", cache));
    keep_ = o.get("keep", std::int64_t{16},
                  "bits of a number, of weights without a shape and of the cache", 8, 64);
    separate_ = o.get("kernels", std::vector<std::string>{"fused", "separate"},
                      "a product of many rows reads the format, or a copy in 16 bits that a kernel "
                      "before it writes") == "separate";
  }

  Transformed apply(const OpGraph& graph) const override {
    const IdVector<OpId, std::vector<OpId>> updates = updates_of_weights(graph);
    const std::int64_t layers = layers_of(graph);
    GraphCopy copy(graph);
    IdVector<TensorId, TensorId> tensors(graph.num_tensors());
    OpId trained = no_op;
    bool changed = false;
    for (const OpId v : graph.ops()) {
      const OpId owner = graph.op(v).forward == no_op ? v : graph.op(v).forward;
      const bool stays = !weights_ || graph.op(v).phase == Phase::update ||
                         except_.describe(graph.name(owner)) || except_.describe(graph.kind(owner));
      const bool frozen = !stays && updates[owner].empty();
      if (!stays && !frozen) trained = owner;
      OpSpec spec = copy.spec(v);
      std::vector<OpWork> kernels;
      if (frozen) {
        const Bytes saved = quantized(graph, v, place_of(graph.name(owner), layers), kernels, spec);
        if (v == owner) spec.persistent -= saved;
        changed |= saved > Bytes{};
      }
      if (cache_ != nullptr && spec.cache > Bytes{}) {
        const Bytes now = of_numbers(*cache_, spec.cache);
        spec.persistent += now - spec.cache;
        spec.cache = now;
        changed = true;
      }
      const OpId made = copy.add(v, spec);
      if (frozen)
        for (const OpWork& kernel : kernels) copy.builder().add_kernel(made, kernel);
      else
        copy.add_kernels(v, made);
      for (const TensorId t : graph.outputs(v))
        if (!graph.tensor(t).control) tensors[t] = copy.add_tensor(t, made, graph.tensor(t).size);
    }
    if (!changed)
      throw InputError(
          trained == no_op
              ? "quantize: no op has weights or a cache to quantize"
              : fmt::format("quantize: the step trains all weights, such as those of '{}'; with "
                            "adapters in ops of their own (kernels: {{fuse_modules: false}}) it "
                            "trains few",
                            graph.name(trained)));
    copy.add_edges(tensors);
    return std::move(copy).built();
  }

 private:
  static std::int64_t layer_number(std::string_view name) {
    const std::string_view layer = layer_of(name);
    const std::size_t digits = layer.find_last_not_of("0123456789") + 1;
    return parse_number<std::int64_t>(layer.substr(digits)).value_or(-1);
  }
  static std::int64_t layers_of(const OpGraph& graph) {
    std::int64_t last = -1;
    for (const OpId v : graph.ops()) last = std::max(last, layer_number(graph.name(v)));
    return last + 1;
  }
  static WeightPlace place_of(std::string_view name, std::int64_t layers) {
    return {.tensor = name.substr(name.find_last_of("/.") + 1),
            .layer = layer_number(name),
            .layers = layers,
            .shared_keys = true};
  }
  Bytes of_numbers(const NumberFormat& format, Bytes now) const {
    const std::int64_t numbers = now.count * 8 / keep_;
    return format.of(1, (numbers + format.block - 1) / format.block * format.block);
  }

  /// The kernels of `v` with their weights in the format, and the bytes that these save.
  Bytes quantized(const OpGraph& graph, OpId v, const WeightPlace& place,
                  std::vector<OpWork>& kernels, OpSpec& spec) const {
    Bytes saved, copy;
    int products = 0;
    for (OpWork work : graph.kernels(v)) {
      const MatrixShape m = work.matrix.filled(work.flops);
      const bool product = m.kind == MatrixKind::product || m.kind == MatrixKind::prepared_product;
      if (!product || work.weights == Bytes{}) {
        kernels.push_back(work);
        continue;
      }
      if (++products > 1 && !weights_->more.empty())
        throw InputError(fmt::format(
            "quantize: '{}' has several weights, and {} has a format for each: kernels: "
            "{{fuse_modules: false}}, or the generator's option weights",
            graph.name(v), weights_->name));
      const Bytes now = weights_->of(place, m.count * m.columns, m.inner);
      saved += work.weights - now;
      constexpr std::int64_t few = 8;  // GemvNumbers::most_rows
      const Bytes whole{2 * m.count * m.columns * m.inner};
      if (separate_ && m.rows > few) {
        kernels.push_back({.traffic = now + whole, .precision = work.precision, .weights = now});
        copy = std::max(copy, whole);
        work.traffic += whole - work.weights;
        work.weights = whole;
      } else {
        work.traffic += now - work.weights;
        work.weights = now;
      }
      kernels.push_back(work);
    }
    spec.temporary += copy;
    if (graph.kernels(v).empty() && spec.persistent > spec.cache) {
      const Bytes weights = spec.persistent - spec.cache;
      saved += std::max(Bytes{}, weights - of_numbers(weights_->at(place), weights));
    }
    return std::min(saved, spec.persistent);
  }

  std::optional<WeightFormat> weights_{};
  const NumberFormat* cache_ = nullptr;
  std::int64_t keep_ = 16;
  bool separate_ = false;
  KindWords except_;
};

}  // namespace

std::unique_ptr<Transform> make_quantize(Options& o) { return std::make_unique<Quantize>(o); }

}  // namespace baechi
