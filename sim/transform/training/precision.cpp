#include <cmath>

#include "sim/graph/analysis.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

Bytes half(Bytes size) { return {(size.count + 1) / 2}; }

/// Factors by which measured times are divided.
struct Speedup {
  double compute = 3.0, memory = 2.0;
};

/// Mixed-precision training. Activations and their gradients take half of their bytes. Forward and
/// backward ops compute in the new dtype: their work gets the dtype and half of the traffic,
/// measured times are divided by a factor. Unchanged: update ops, and ops of the kinds `except`
/// with their weights, gradients, optimizer state and outputs. A fused kind that contains a GEMM,
/// such as Conv2dBatchNormReLU, is excepted only by a word for the GEMM, or by a pattern.
///   fp16, bf16: the op holds a 16-bit copy of the weights, which each step casts from the fp32
///     master weights. The update op holds and changes the master weights (the op itself, if
///     nothing updates it, or if forward ops also hold the optimizer state). Gradients of weights
///     take half of their bytes. Where forward ops hold everything, the weights are taken to be as
///     large as their gradients, if these are tensors. Frozen weights have no master weights; ops
///     with adapters have master weights as large as their gradients. Without master weights, and
///     in a graph without update ops, there is the 16-bit copy alone, and optimizer state takes
///     half of its bytes.
///   amp: as fp16, but gradients of weights stay in fp32 (PyTorch's autocast), as with
///     `gradients: whole`, and weights in fp32 are cast in each pass, also where nothing updates
///     them.
///   fp8, mxfp8, nvfp4: bf16 with FP8 or FP4 GEMMs in layers: ops whose names have a part with a
///     number (layer_of). Attention, whose GEMM count grows with the batch (`count` 0), embeddings
///     and the head stay in bf16, and so do all bytes: FP8 weights stored by rows and by columns
///     take as many. Other kernels convert the operands: a gradient is read and written by rows and
///     by columns (4 bytes per number); half of the inputs are converted by the preceding norm, the
///     others cost the same; operands of weight-gradient GEMMs have been converted already. With
///     `attention: fp8` fused attention in layers also computes in FP8 (Transformer Engine,
///     fp8_dpa), with unchanged traffic. GEMMs of the kinds `whole` stay in bf16. With
///     `conversions: dynamic`, as in torchao, one kernel computes the maximum and another converts,
///     weights are converted for each GEMM, and operands read by columns are copied: 5 bytes per
///     number, 7 with a copy. q, k and v share the conversion of their input, and so do gate and
///     up: 3.5 and 5 bytes in the mean over a Llama's numbers. Experts stay in bf16: torchao swaps
///     modules of type Linear.
///   tf32: all bytes stay.
/// Tensors of fixed size are unchanged.
/// Source: Micikevicius et al., "Mixed precision training", ICLR 2018; the factors 3 and 2: Zhu et
/// al., Daydream, ATC 2020; 8 bits: Micikevicius et al., "FP8 formats for deep learning", 2022;
/// their conversions: NVIDIA Transformer Engine's cast_transpose and LayerNormLinear.
class MixedPrecision final : public Transform {
 public:
  explicit MixedPrecision(Options& o)
      : to_(o.get("to", {"amp", "fp16", "bf16", "tf32", "fp8", "mxfp8", "nvfp4"},
                  "dtype of most ops; the last three apply to GEMMs in layers")),
        except_(KindWords::read(o, "except", {"norm", "softmax", "loss"},
                                "kinds of ops that stay in fp32")),
        master_weights_(o.get("master_weights", true,
                              "fp32 master weights, which updates change and each step casts")),
        whole_gradients_(o.get("gradients", std::vector<std::string>{"by_format", "whole"},
                               "dtype of weight gradients; by_format: fp32 with amp only; whole: "
                               "always fp32, as Megatron-LM with bf16") == "whole") {
    remainders_ = o.get("remainders", false,
                        "master weights store only the 16 bits that the bf16 copy lacks, as NVIDIA "
                        "Apex's store_param_remainders");
    if (remainders_ && !master_weights_) o.mistake("remainders", "needs master_weights");
    if (remainders_ && (to_ == "fp16" || to_ == "amp"))
      o.mistake("remainders", "fp16 is not a prefix of fp32");
    whole_ = KindWords::read(o, "whole", {},
                             "kinds of ops whose GEMMs stay in bf16 with fp8, mxfp8, nvfp4");
    fp8_attention_ =
        o.get("attention", std::vector<std::string>{"whole", "fp8"},
              "with fp8, mxfp8 and nvfp4: dtype of fused attention in layers; whole: bf16") ==
        "fp8";
    dynamic_ = o.get("conversions", std::vector<std::string>{"prepared", "dynamic"},
                     "of fp8, mxfp8, nvfp4: fused into other kernels, as in Transformer Engine, or "
                     "separate kernels with dynamic scaling, as in torchao") == "dynamic";
    if (to_ == "amp") whole_gradients_ = true;
    speedup_.compute = o.get("compute_factor", speedup_.compute,
                             "divisor of measured times of compute-bound ops", 1e-3);
    speedup_.memory = o.get("memory_factor", speedup_.memory,
                            "divisor of measured times of other ops; with tf32: 1", 1e-3);
    read_kinds(o);
    if (to_ == "tf32") speedup_.memory = 1.0;
    if (!halves()) master_weights_ = true;
    if (to_ == "amp" && !master_weights_)
      o.mistake("master_weights", "amp keeps fp32 weights; without them use fp16 or bf16");
    const bool eight = to_ == "fp8" || to_ == "mxfp8", four = to_ == "nvfp4";
    precision_ = eight || four  ? Precision::bf16
                 : to_ == "amp" ? Precision::fp16
                                : *parse<Precision>(to_);
    in_layers_ = eight ? Precision::fp8 : four ? Precision::fp4 : precision_;
  }

  Transformed apply(const OpGraph& graph) const override {
    if (halves()) refuse_if_halved(graph);
    if (halves() && to_ != "amp" && master_weights_ && !updates_any(graph)) {
      MixedPrecision copies_only = *this;
      copies_only.master_weights_ = false;
      return copies_only.apply(graph);
    }
    GraphCopy copy(graph);
    const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph),
                            whole = whole_.of_kinds(graph);
    IdVector<TensorId, TensorId> tensors(graph.num_tensors());
    const IdVector<OpId, std::vector<OpId>> updates = updates_of_weights(graph);
    const IdVector<OpId, bool> stays = ops_in_fp32(graph, updates);
    const IdVector<OpId, Bytes> weights = weights_of(graph);
    const IdVector<OpId, Bytes> persistent = persistent_bytes(graph, updates, weights, stays);
    for (const OpId v : graph.ops()) {
      const bool same = stays[v];
      OpSpec spec = copy.spec(v);
      spec.persistent = persistent[v];
      if (const Bytes sums = whole_gradients_ ? gradient_workspace(graph, v) : Bytes{};
          !same && halves())
        spec.temporary = sums + half(spec.temporary - sums);
      const bool by_compute = computes[graph.op(v).kind];
      const OpId made = copy.add(v, spec, [&](Duration time, std::size_t kind) {
        return same ? time : shorter(time, by_compute, graph, kind);
      });
      const OpId forward = graph.op(v).forward == no_op ? v : graph.op(v).forward;
      const bool in_layer = !layer_of(graph.name(v)).empty() && !whole[graph.op(forward).kind] &&
                            !(dynamic_ && is_expert(graph, v));
      copy.add_kernels(v, made, [&](OpWork work) { return same ? work : changed(work, in_layer); });
      if (in_layer && !same && in_layers_ != precision_)
        copy.builder().add_kernel(made, {.traffic = converted(graph, v), .precision = precision_});
      for (const TensorId t : graph.outputs(v)) {
        const Tensor& tensor = graph.tensor(t);
        if (tensor.control) continue;
        const bool stays_whole = !halves() || tensor.fixed_size || in_fp32(graph, t, stays) ||
                                 (whole_gradients_ && is_for_updates(graph, t));
        tensors[t] = copy.add_tensor(t, made, stays_whole ? tensor.size : half(tensor.size));
      }
    }
    copy.add_edges(tensors);
    copy.change_collectives(
        [&](const Collective& c) { return stays[c.first] || !halves() ? c.bytes : half(c.bytes); });
    const IdVector<OpId, bool> frozen = frozen_weights(graph, updates);
    for (const OpId v : graph.ops())
      if (casts(graph, v) && !stays[v] && (!frozen[v] || to_ == "amp"))
        add_cast(copy, graph, v, weights[v], updates[v]);
    return std::move(copy).built();
  }

 private:
  static bool updates_any(const OpGraph& graph) {
    return std::ranges::any_of(graph.ops(),
                               [&](OpId v) { return graph.op(v).phase == Phase::update; });
  }
  bool halves() const { return to_ != "tf32"; }

  static constexpr std::string_view cast_kind = "Cast", cast_suffix = "/half";

  /// Throws InputError if this transform was already applied, as its casts show, or if weights have
  /// fewer bits.
  static void refuse_if_halved(const OpGraph& graph) {
    for (const OpId v : graph.ops()) {
      if (graph.kind(v) == cast_kind && graph.name(v).ends_with(cast_suffix))
        throw InputError(fmt::format(
            "precision: the step is in half precision already: '{}' casts weights", graph.name(v)));
      for (const OpWork& work : graph.kernels(v))
        if (work.weights > Bytes{} && is_of_weights(work) && work.matrix.inner > 0 &&
            work.weights < Bytes{2 * work.matrix.count * work.matrix.columns * work.matrix.inner})
          throw InputError(
              fmt::format("precision: the weights of '{}' have fewer than 16 bits: put precision "
                          "before quantize, or give the generator's option dtype",
                          graph.name(v)));
    }
  }

  void read_kinds(Options& o) {
    const Options::Value* given = o.raw(
        "kinds", "{KIND: {compute_factor: F, memory_factor: F}}: other factors on a device type");
    if (given == nullptr) return;
    for (const auto& [kind, factors] : given->children) {
      std::map<std::string, Options::Value> values(factors.children.begin(),
                                                   factors.children.end());
      Options of_kind("precision.kinds." + kind, std::move(values));
      Speedup& speedup = kinds_[kind] = speedup_;
      speedup.compute = of_kind.get("compute_factor", speedup.compute, "", 1e-3);
      speedup.memory = of_kind.get("memory_factor", speedup.memory, "", 1e-3);
      of_kind.finish();
    }
  }

  Duration shorter(Duration time, bool by_compute, const OpGraph& graph, std::size_t kind) const {
    Speedup speedup = speedup_;
    if (kind < graph.device_kinds().size())
      if (const auto it = kinds_.find(graph.device_kinds()[kind]); it != kinds_.end())
        speedup = it->second;
    const double factor = by_compute ? speedup.compute : speedup.memory;
    return Duration{saturated(std::round(static_cast<double>(time.count()) / factor))};
  }

  static bool is_of_weights(const OpWork& work) {
    return work.matrix.kind == MatrixKind::product && work.matrix.count > 0;
  }

  /// Kernels recorded in half precision are unchanged.
  OpWork changed(OpWork work, bool in_layer) const {
    if (work.precision == Precision::fp16 || work.precision == Precision::bf16) return work;
    if (halves()) {
      work.traffic = half(work.traffic);
      work.weights = half(work.weights);
    }
    const bool product = in_layer && is_of_weights(work);
    work.precision = product ? in_layers_ : precision_;
    if (product && in_layers_ != precision_) work.matrix.kind = MatrixKind::prepared_product;
    const bool attention = work.matrix.kind == MatrixKind::attention ||
                           work.matrix.kind == MatrixKind::causal_attention;
    if (fp8_attention_ && in_layer && attention && in_layers_ != precision_)
      work.precision = Precision::fp8;
    return work;
  }

  /// Bytes moved to convert the operands of the GEMMs of `v`.
  Bytes converted(const OpGraph& graph, OpId v) const {
    const bool forward = graph.op(v).phase == Phase::forward;
    double moved = 0.0;
    for (const OpWork& work : graph.kernels(v)) {
      if (!is_of_weights(work)) continue;
      const bool of_weights = work.matrix.inner == 0;
      const MatrixShape shape = work.matrix.filled(work.flops);
      const auto read = static_cast<double>(shape.count * shape.rows * shape.inner);
      const auto weights = static_cast<double>(shape.count * shape.inner * shape.columns);
      if (!dynamic_)
        moved += of_weights ? 0.0 : (forward ? 2.0 : 4.0) * read;
      else if (of_weights)
        moved += 5.0 * read;
      else
        moved += forward ? 3.5 * read + 5.0 * weights : 7.0 * (read + weights);
    }
    return Bytes{static_cast<std::int64_t>(moved)};
  }

  /// Whether `t` stays in fp32 because its producer does. A gradient has the dtype of the value
  /// that it is a gradient of, since autograd casts it.
  static bool in_fp32(const OpGraph& graph, TensorId t, const IdVector<OpId, bool>& stays) {
    const OpId made = graph.tensor(t).producer;
    if (!stays[made] || graph.op(made).phase != Phase::backward) return stays[made];
    bool of_value = false, whole = false;
    for (const EdgeId e : graph.readers(t)) {
      const OpId reader = graph.edge(e).dst;
      if (graph.op(reader).phase != Phase::backward || graph.op(reader).forward == no_op) continue;
      of_value = true;
      whole |= stays[reader];
    }
    return whole || !of_value;
  }

  static bool is_for_updates(const OpGraph& graph, TensorId t) {
    for (const EdgeId e : graph.readers(t))
      if (graph.op(graph.edge(e).dst).phase == Phase::update) return true;
    return false;
  }

  /// Whether an op of its own casts the weights of `v`: only in graphs with work.
  bool casts(const OpGraph& graph, OpId v) const {
    return halves() && master_weights_ && graph.has_work() && graph.op(v).phase == Phase::forward &&
           graph.op(v).persistent > Bytes{};
  }

  /// Ops of a training step whose weights nothing updates, and whose backward ops hold no
  /// gradients. None if the graph does not link backward ops to forward ops. [num_ops]
  static IdVector<OpId, bool> frozen_weights(const OpGraph& graph,
                                             const IdVector<OpId, std::vector<OpId>>& updates) {
    bool trains = false, linked = false;
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      trains |= op.phase == Phase::update;
      linked |= op.phase == Phase::backward && op.forward != no_op;
    }
    const IdVector<OpId, Bytes> learned = learned_bytes(graph);
    IdVector<OpId, bool> frozen;
    for (const OpId v : graph.ops())
      frozen.push_back(trains && linked && updates[v].empty() && learned[v] == Bytes{});
    return frozen;
  }

  /// Bytes of gradients of each op, which backward ops hold or write as tensors.
  static IdVector<OpId, Bytes> learned_bytes(const OpGraph& graph) {
    IdVector<OpId, Bytes> learned(graph.num_ops());
    for (const Gradient& g : gradients_of(graph))
      if (const OpId v = graph.op(g.producer).forward; g.tensor && v != no_op)
        learned[v] += g.bytes;
    for (const OpId v : graph.ops())
      if (const Op& op = graph.op(v); op.phase == Phase::backward && op.forward != no_op)
        learned[op.forward] += op.persistent;
    return learned;
  }

  /// The ops that stay in fp32: of the kinds `except`, their backward ops, and the ops that update
  /// only their weights; with master weights, all updates. [num_ops]
  IdVector<OpId, bool> ops_in_fp32(const OpGraph& graph,
                                   const IdVector<OpId, std::vector<OpId>>& updates) const {
    const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph);
    const KindWords of_products = except_.patterns_and(compute_bound_kinds());
    std::vector<bool> excepted = except_.of_kinds(graph);
    for (std::size_t kind = 0; kind < excepted.size(); ++kind)
      if (computes[kind]) excepted[kind] = of_products.describe(graph.kinds()[kind]);
    IdVector<OpId, bool> stays;
    std::set<OpId> of_others;
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      stays.push_back(excepted[op.kind] ||
                      (op.forward != no_op && excepted[graph.op(op.forward).kind]) ||
                      (op.phase == Phase::update && master_weights_));
      if (!stays[v]) of_others.insert(updates[v].begin(), updates[v].end());
    }
    for (const OpId v : graph.ops())
      for (const OpId u : updates[v])
        if (stays[v] && !of_others.contains(u)) stays[u] = true;
    return stays;
  }

  /// The bytes of weights of each op: its persistent bytes; for forward ops that also hold
  /// gradients and optimizer state, at most the bytes of their gradients, if these are tensors.
  /// [num_ops]
  static IdVector<OpId, Bytes> weights_of(const OpGraph& graph) {
    IdVector<OpId, Bytes> weights;
    for (const OpId v : graph.ops()) weights.push_back(graph.op(v).persistent);
    if (!persistent_of_one_kind(graph)) return weights;
    const IdVector<OpId, Bytes> gradients = learned_bytes(graph);
    for (const OpId v : graph.ops())
      if (gradients[v] > Bytes{}) weights[v] = std::min(weights[v], gradients[v]);
    return weights;
  }

  /// The new persistent bytes of each op. [num_ops]
  IdVector<OpId, Bytes> persistent_bytes(const OpGraph& graph,
                                         const IdVector<OpId, std::vector<OpId>>& updates,
                                         const IdVector<OpId, Bytes>& weights,
                                         const IdVector<OpId, bool>& stays) const {
    IdVector<OpId, Bytes> bytes;
    for (const OpId v : graph.ops()) bytes.push_back(graph.op(v).persistent);
    if (!halves()) return bytes;
    const bool one_kind = persistent_of_one_kind(graph);
    const IdVector<OpId, bool> frozen = frozen_weights(graph, updates);
    const IdVector<OpId, Bytes> learned = learned_bytes(graph);
    const bool adapters = !one_kind && std::ranges::any_of(graph.ops(), [&](OpId v) {
      return frozen[v] && graph.op(v).phase == Phase::forward && graph.op(v).persistent > Bytes{};
    });
    for (const OpId v : graph.ops()) {
      const Bytes given = graph.op(v).persistent;
      const Phase phase = graph.op(v).phase;
      if (stays[v]) continue;
      if (!master_weights_ || (phase == Phase::backward && !whole_gradients_)) {
        bytes[v] = half(given);
      } else if (phase == Phase::forward) {
        bytes[v] = half(weights[v]);
        const OpId holds_master = one_kind || updates[v].empty() ? v : updates[v].front();
        const Bytes whole = to_ == "amp" ? given
                            : frozen[v]  ? Bytes{}
                            : adapters   ? std::min(given, learned[v])
                                         : given;
        bytes[holds_master] += remainders_ ? half(whole) : whole;
      }
    }
    return bytes;
  }

  /// The last ones of `updates` and of the update ops that follow them, such as Adam after
  /// clipping; only those in the group of `v`, if there are any, because clipping also precedes the
  /// updates of other weights.
  static std::vector<OpId> last_updates(const OpGraph& graph, OpId v,
                                        const std::vector<OpId>& updates) {
    std::set<OpId> reached(updates.begin(), updates.end());
    std::vector<OpId> last, own;
    for (const OpId u : reached) {  // ids are topological: insertions are after u
      bool read = false;
      for (const EdgeId e : graph.out_edges(u)) {
        if (graph.op(graph.edge(e).dst).phase != Phase::update) continue;
        reached.insert(graph.edge(e).dst);
        read = true;
      }
      if (read) continue;
      last.push_back(u);
      if (graph.op(v).group != no_group && graph.op(u).group == graph.op(v).group) own.push_back(u);
    }
    return own.empty() ? last : own;
  }

  /// Adds an op that casts the fp32 weights of `v` to the 16-bit copy, which `v` holds: once per
  /// step, after the updates of the weights, or before `v` if there are none.
  static void add_cast(GraphCopy& copy, const OpGraph& graph, OpId v, Bytes weights,
                       const std::vector<OpId>& updates) {
    const OpId cast =
        copy.builder().add_op({.name = fmt::format("{}{}", graph.name(v), cast_suffix),
                               .kind = cast_kind,
                               .phase = updates.empty() ? Phase::forward : Phase::update});
    const Bytes moved = weights + half(weights);
    copy.builder().add_kernel(cast, {.traffic = moved, .weights = moved});
    for (const OpId w : last_updates(graph, v, updates))
      copy.builder().add_control(copy.copy_of(w), cast);
    if (updates.empty()) copy.builder().add_control(cast, copy.copy_of(v));
    copy.colocate(cast, v);
  }

  std::string to_;
  Precision precision_{}, in_layers_{};
  KindWords except_;
  KindWords whole_;
  bool master_weights_, whole_gradients_;
  bool remainders_ = false, fp8_attention_ = false, dynamic_ = false;
  Speedup speedup_;
  std::map<std::string, Speedup, std::less<>> kinds_;
};

}  // namespace

std::unique_ptr<Transform> make_precision(Options& o) {
  return std::make_unique<MixedPrecision>(o);
}

}  // namespace baechi
