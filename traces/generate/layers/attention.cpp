#include "traces/generate/layers/attention.h"

namespace baechi::generate {

Attention read_attention(Options& o, const Expansion& e, Attention attention) {
  attention.fused =
      o.get("fused_attention", attention.fused, "one kernel that never writes the probabilities");
  return with_kernels(e, attention);
}

Attention with_kernels(const Expansion& e, Attention attention) {
  const Kernels& k = e.kernels;
  attention.fused &= !k.unfused_attention;
  attention.kernels = k.attention;
  attention.copied = k.attention_output_copy;
  attention.packed = k.unpad_tokens;
  attention.balanced = !k.unbalanced_context;
  return attention;
}

Recompute read_recompute(Options& o, const Expansion& e) {
  Recompute recompute;
  std::string text = o.get(
      "recompute", "",
      "what the backward pass recomputes (activation checkpointing), with + between: operators "
      "(all of a block but attention's core and every second GEMM, as torchtitan's selective "
      "checkpointing), or parts as Megatron-LM names them: core_attn, mla_up_proj, mlp (in blocks "
      "without experts), moe_act (of grouped experts), layernorm, shared_experts");
  if (!text.empty() && e.level == Level::tf1)
    o.mistake("recompute", "TensorFlow 1 keeps what it computes; level module");
  while (!text.empty()) {
    const std::string name = text.substr(0, text.find('+'));
    if (name == "operators")
      recompute.operators = true;
    else if (const auto part = parse<Recomputed>(name))
      recompute.parts.insert(*part);
    else
      o.mistake("recompute", fmt::format("'{}' is no part that can be", name));
    text.erase(0, name.size() + 1);
  }
  return recompute;
}

namespace {

/// Source: Korthikanti et al., "Reducing activation recomputation in large transformer models",
/// MLSys 2023, section 5: selective recomputation.
void recompute(Layer& l, const Attention& o) {
  if (!o.again) return;
  l.again = true;
  l.workspace += l.kept + l.kept_fixed;
  l.kept = l.kept_fixed = {};
}

/// What is copied beside a fused kernel: by PyTorch without a compiler, keys and values for all
/// heads that share them (read and written) and their sums back, or, where each head has its own,
/// the gradients of all three into that of one product; and with `packed` all tokens out of their
/// samples, and the output into samples of zeros. Source: flash_attn, bert_padding.py.
void add_copies(const Model& model, Layer& l, Bytes out, const Attention& o) {
  Bytes in;
  for (const ValueId v : l.inputs) in += model.value(v).size();
  const bool shared = o.key_value_heads > 0 && o.key_value_heads < o.heads;
  if (model.eager() && shared) {
    const Bytes moved = 2 * out + (in - model.value(l.inputs[0]).size());
    l.forward_besides.push_back({.traffic = moved});
    l.backward_besides.push_back({.traffic = moved});
  } else if (model.eager()) {
    l.backward_besides.push_back({.traffic = 2 * in});
  }
  if (!o.packed) return;
  l.forward_besides.push_back({.traffic = 2 * in + 3 * out});
  l.backward_besides.push_back({.traffic = 3 * in + 2 * out});
}

/// Bytes that attention reads and writes, and the sizes of its products.
struct AttentionSizes {
  Bytes q, k, v, out;
  std::int64_t length = 0, others = 0;  ///< tokens of a sample that see, and that are seen
  std::int64_t seen = 0;                ///< by each, at most
  std::int64_t per_head = 0, per_value = 0;
  std::int64_t rows = 0, scored = 0;  ///< of all samples and heads: tokens, and scores
};

/// The kernels of attention that is not fused, one by one. Source: Shoeybi et al., Megatron-LM,
/// 2019, fused_kernels; NVIDIA's BERT in PyTorch, modeling.py, which copies q, k, v and the output
/// between the layouts of tokens and of heads. Dropout writes and reads a mask, a byte for each
/// number of two.
void set_kernels(Layer& l, const AttentionSizes& s, const Attention& o) {
  const bool torch = o.kernels == AttentionKernels::torch;
  const Bytes scores = bytes_of(s.scored);
  const auto product = [&](std::int64_t depth, Bytes traffic, MatrixShape shape) {
    return OpWork{.flops = 2 * s.scored * depth, .traffic = traffic, .matrix = shape};
  };
  const auto pass = [&](double times) {
    return OpWork{.flops = s.scored, .traffic = times * scores};
  };
  const auto copy = [&](std::vector<OpWork>& kernels, Bytes bytes) {
    kernels.push_back({.traffic = 2 * bytes});
  };
  constexpr auto kind = MatrixKind::product;
  const MatrixShape scoring{kind, 0, s.length, s.others, s.per_head},
      summing{kind, 0, s.length, s.per_value, s.others},
      of_values{kind, 0, s.others, s.per_value, s.length},
      of_queries{kind, 0, s.length, s.per_head, s.others},
      of_keys{kind, 0, s.others, s.per_head, s.length},
      of_scores{kind, 0, s.length, s.others, s.per_value};
  constexpr double dropped = 2.5;
  std::vector<OpWork>& there = l.forward_besides;
  l.forward = product(s.per_head, s.q + s.k + scores, scoring);
  if (torch) {
    for (const Bytes bytes : {s.q, s.k, s.v}) copy(there, bytes);
    for (int scaled_and_masked = 0; scaled_and_masked < 2; ++scaled_and_masked)
      there.push_back(pass(2));
  }
  there.push_back(pass(2));  // the softmax
  if (o.dropout) there.push_back(pass(dropped));
  there.push_back(product(s.per_value, scores + s.v + s.out, summing));
  copy(there, s.out);
  std::vector<OpWork>& back = l.backward_besides;
  l.input_gradient = product(s.per_value, s.out + s.v + scores, of_scores);
  back.push_back(product(s.per_value, scores + s.out + s.v, of_values));
  if (o.dropout) back.push_back(pass(dropped));
  back.push_back(pass(3));  // the softmax
  if (torch) back.push_back(pass(2));
  back.push_back(product(s.per_head, scores + s.k + s.q, of_queries));
  back.push_back(product(s.per_head, scores + s.q + s.k, of_keys));
  copy(back, s.out);
  for (const Bytes bytes : {s.q, s.k, s.v}) copy(back, bytes);
}

/// One kernel. The backward pass computes the scores again: five products, where the forward pass
/// has two. Kept are the output and a sum of exponentials per row. Source: FlashAttention (Dao et
/// al., 2022).
void set_fused(const Model& model, Layer& l, const AttentionSizes& s, const Attention& o) {
  l.input_gradient.flops = 2 * s.scored * (3 * s.per_head + 2 * s.per_value) + 8 * s.scored;
  l.forward.matrix = {
      .kind = o.causal && s.seen == s.others ? MatrixKind::causal_attention : MatrixKind::attention,
      .rows = s.length,
      .columns = (s.per_head + s.per_value) / 2,
      .inner = s.seen};
  l.input_gradient.matrix = l.forward.matrix;
  l.kept_fixed = bytes_of(s.rows);
  add_copies(model, l, s.out, o);
  if (o.copied) l.kept += s.out;
}

/// The scores are written, masked, normalised, dropped and read: two passes each.
void set_unfused(Layer& l, const AttentionSizes& s, const Attention& o) {
  const std::int64_t passes = o.dropout ? 8 : 6;
  l.forward.traffic += bytes_of(passes * s.scored);
  l.input_gradient.flops = 4 * l.multiply_adds + 6 * s.scored;
  l.input_gradient.traffic += bytes_of(passes * s.scored);
  l.kept = bytes_of(s.scored);  // probabilities; with dropout also the dropped ones, and a mask
  if (o.dropout) {
    l.kept += bytes_of(s.scored);
    l.kept_fixed = {s.scored};
  }
  l.workspace = bytes_of(2 * s.scored);
  if (o.kernels != AttentionKernels::one) set_kernels(l, s, o);
}

}  // namespace

ValueId attention(Model& model, std::string_view name, ValueId q, ValueId k, ValueId v,
                  const Attention& o) {
  Layer l{.kind = o.fused ? LayerKind::fused_attention : LayerKind::attention,
          .name = model.scoped(name),
          .inputs = {q, k, v}};
  const Shape in = model.value(q).shape;
  const bool documents = o.document > 0 && o.document < in[1];
  // Documents are samples of their own.
  const std::int64_t n = documents ? in[0] * in[1] / o.document : in[0],
                     length = documents ? o.document : in[1], width = in[2],
                     others = documents ? o.document : model.value(k).shape[1];
  const std::int64_t per_head = width / o.heads,
                     per_value = o.value_size > 0 ? o.value_size : per_head;
  const std::int64_t shared = o.key_value_heads > 0 ? o.key_value_heads : o.heads;
  for (const auto& [kept, size] : {std::pair{k, per_head}, {v, per_value}})
    BAECHI_CHECK(model.value(kept).shape[2] == shared * size,
                 "{}: keys and values are of {} features", name, shared * size);
  const Shape out{in[0], in[1], o.heads * per_value};
  const bool windowed = o.fused && o.window > 0 && o.window < others;
  // The last context-parallel rank: its tokens see all earlier ones and, in the mean, half of its
  // own.
  const bool last = o.fused && o.causal && !o.balanced && !windowed && length < others;
  const std::int64_t seen = windowed ? o.window : last ? others - length / 2 : others;
  const std::int64_t scores = n * o.heads * length * seen;
  l.multiply_adds = scores * (per_head + per_value);
  l.forward.flops = 2 * l.multiply_adds + 5 * scores;
  l.forward.traffic =
      bytes_of(n * (length * (width + out[2]) + others * shared * (per_head + per_value)));
  l.input_gradient.traffic = 2 * l.forward.traffic;
  l.saved = {q, k, v};
  const AttentionSizes sizes{.q = model.value(q).size(),
                             .k = model.value(k).size(),
                             .v = model.value(v).size(),
                             .out = bytes_of(elements(out)),
                             .length = length,
                             .others = others,
                             .seen = seen,
                             .per_head = per_head,
                             .per_value = per_value,
                             .rows = n * o.heads * length,
                             .scored = scores};
  if (o.fused)
    set_fused(model, l, sizes, o);
  else
    set_unfused(l, sizes, o);
  const ValueId y = model.output(l, out);
  if (o.fused) l.saved.push_back(y);
  recompute(l, o);
  model.add(std::move(l));
  return y;
}

}  // namespace baechi::generate
