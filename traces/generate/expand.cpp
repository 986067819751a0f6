#include "traces/generate/expand.h"

namespace baechi::generate {

std::map<std::string, Options::Value> entries_of(const Options::Value& given) {
  std::map<std::string, Options::Value> entries;
  for (const auto& [name, value] : given.children)
    entries[name.empty() ? value.text : name] =
        name.empty() ? Options::Value{"true", value.where} : value;
  std::string_view text = given.text;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find('+'));
    const std::size_t equals = entry.find('=');
    entries[std::string(entry.substr(0, equals))] = {
        equals == std::string_view::npos ? "true" : std::string(entry.substr(equals + 1)),
        given.where};
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return entries;
}

Options entries_of(Options& options, const std::string& key, std::string_view help) {
  std::map<std::string, Options::Value> entries;
  if (const Options::Value* given = options.raw(key, help)) entries = entries_of(*given);
  return Options(options.owner().empty() ? "" : fmt::format("{}.{}", options.owner(), key),
                 std::move(entries), options.base());
}

namespace {

Kernels read_kernel_words(Options& options, bool tf1) {
  Options o = entries_of(
      options, "kernels",
      "how a framework's kernels compute the model, as its file in scenarios/frameworks/ says: "
      "words with + between, or a mapping: fuse_modules, fuse_relu, split_backward, copy_sums, "
      "colocate_gradients, eager, fused_optimizer, saved_inputs, torch, megatron, "
      "unfused_attention, attention_output_copy, unpad_tokens, unbalanced_context, unfused_loss, "
      "metrics, packed_sequence, internlm, recompute_norm, unfused_rope, grouped_gemm, "
      "weighted_activation, unfused_expert_bias, unfused_clamp, dispatch_once");
  Kernels k;
  const auto flag = [&](const char* key, bool& value, std::string_view help) {
    value = o.get(key, value, help);
    if (value && tf1) o.mistake(key, "TensorFlow 1 has its own kernels; level module");
  };
  k.fuse_modules =
      o.get("fuse_modules", true, "an op for a convolution with its batch norm and ReLU");
  k.copy_sums =
      o.get("copy_sums", false,
            "the backward op of a sum copies its gradient, which frameworks only hand on");
  k.colocate_gradients = o.get("colocate_gradients", true,
                               "level tf1: gradient ops share the group of their forward op");
  flag("fuse_relu", k.fuse_relu, "a ReLU runs in the kernel before it, as XLA's and cuDNN's do");
  flag("split_backward", k.split_backward,
       "an op for the gradients that layers before wait for, and another for those of the weights, "
       "as zero-bubble schedules and sequence_parallel need them");
  k.saved_inputs = read_enum(o, "saved_inputs", k.saved_inputs,
                             "what GEMMs in layers save of what they read, once the transform "
                             "precision has halved all other bytes");
  if (k.saved_inputs != KeptInputs::whole && tf1)
    o.mistake("saved_inputs", "TensorFlow 1 keeps its tensors; level module");
  flag("eager", k.eager,
       "kernels as PyTorch launches them without a compiler, in a training of 16 bits");
  k.fused_optimizer = o.get("fused_optimizer", false, "one kernel also if eager, as NVIDIA Apex's");
  bool torch = false, megatron = false;
  flag("torch", torch, "attention that is not fused is PyTorch's: two GEMMs and its operations");
  flag("megatron", megatron,
       "the same as Megatron-LM fuses it; gpt's dropouts, norms and optimizer are its, too");
  if (torch) k.attention = AttentionKernels::torch;
  if (megatron) k.attention = AttentionKernels::megatron;
  k.unfused_attention =
      o.get("unfused_attention", false, "attention of moe and hybrid writes its probabilities");
  flag("attention_output_copy", k.attention_output_copy,
       "a fused kernel keeps its output in its own layout, too, as FlashAttention does in models "
       "whose tokens come first");
  flag("unpad_tokens", k.unpad_tokens,
       "tokens are copied out of their samples for a fused kernel, and its output back, as "
       "FlashAttention's unpad_input and pad_input do");
  k.unbalanced_context = o.get("unbalanced_context", false,
                               "with context: the graph is of the last rank, which sees the most");
  k.unfused_loss = o.get("unfused_loss", false, "the loss has a kernel for each of its operations");
  k.metrics = o.get("metrics", std::int64_t{0},
                    "cross-entropies in 32 bits besides the loss, as Composer's", 0, 100);
  k.packed_sequence = o.get("packed_sequence", std::int64_t{0},
                            "tokens of a document, of which a sample has several, one behind the "
                            "other: a token sees those of its own; 0: a sample is one");
  k.internlm = o.get("internlm", false,
                     "a dropout that drops nothing and a cast to 32 bits before each norm, and the "
                     "activation in two kernels");
  flag("recompute_norm", k.recompute_norm, "with internlm: dropout and norm are recomputed");
  if (k.recompute_norm && !k.internlm) o.mistake("recompute_norm", "needs internlm");
  k.unfused_rope = o.get("unfused_rope", false, "rotary positions operation by operation");
  const std::string grouped = o.get("grouped_gemm", {"auto", "true", "false"},
                                    "a rank's experts are one kernel for each GEMM");
  if (grouped != "auto") k.grouped_gemm = grouped == "true";
  k.weighted_activation =
      o.get("weighted_activation", false,
            "experts apply a token's weights where they activate, as Megatron-LM's do from core "
            "0.13 on; else the sum behind them does");
  k.unfused_expert_bias = o.get("unfused_expert_bias", false,
                                "grouped experts add the last bias operation by operation");
  k.unfused_clamp =
      o.get("unfused_clamp", false, "kernels of their own limit what grouped experts activate");
  k.dispatch_once = o.get("dispatch_once", std::int64_t{0},
                          "nodes, or on one node ranks, with the experts: a token is sent to each "
                          "once, as DeepEP does, not to each of its experts; 0: it is not");
  o.finish();
  return k;
}

/// The op that an optimizer updates a variable with, and its slots. [Optimizer]
constexpr std::pair<std::string_view, int> update_by[] = {{"NoOp", 0},
                                                          {"ApplyGradientDescent", 0},
                                                          {"ApplyMomentum", 1},
                                                          {"ApplyAdam", 2},
                                                          {"ApplyRMSProp", 2}};

}  // namespace

Expansion read_expansion(Options& o, std::int64_t batch, Optimizer optimizer, bool level,
                         Pass pass) {
  Expansion e;
  e.inference.pass = pass;
  e.batch = o.get("batch", batch, "samples per step", 1);
  constexpr std::int64_t most = 1'000'000;
  if (e.batch > most) {
    o.mistake("batch", fmt::format("more than {}", most));
    e.batch = most;
  }
  if (level)
    e.level = read_enum(o, "level", Level::module,
                        "an op per module, as PyTorch; or the ops of TensorFlow 1.12");
  e.optimizer = read_enum(o, "optimizer", optimizer, "what updates the weights");
  e.training = o.get("training", !e.inference.on(), "with backward and update ops");
  e.inference.batch = e.batch;
  if (e.inference.on() && e.training)
    o.mistake("training", fmt::format("pass {} trains nothing", to_text(pass)));
  if (e.inference.on() && e.level == Level::tf1)
    o.mistake("level", "pass train alone has tf1's ops");
  e.kernels = read_kernel_words(o, e.level == Level::tf1);
  return e;
}

int slots(Optimizer optimizer) { return update_by[static_cast<std::size_t>(optimizer)].second; }

OpWork update_work(Optimizer optimizer, std::int64_t parameters) {
  // Weights and slots are read and written, gradients are read.
  const std::int64_t words = 3 + 2 * slots(optimizer);
  std::int64_t flops = 0;
  switch (optimizer) {
    case Optimizer::none:
      return {};
    case Optimizer::sgd:  // w -= r g
      flops = 2;
      break;
    case Optimizer::momentum:  // m = b m + g; w -= r m
      flops = 4;
      break;
    case Optimizer::adam:  // m += (1 - b)(g - m); v += (1 - c)(g g - v); w -= r m / (sqrt v + e)
      flops = 11;
      break;
    case Optimizer::rmsprop:  // s += (1 - d)(g g - s); m = b m + r g / sqrt(s + e); w -= m
      flops = 10;
      break;
  }
  return {.flops = flops * parameters, .traffic = bytes_of(words * parameters)};
}

UpdateKernels update_kernels_of(const Expansion& e) {
  if (e.megatron) return UpdateKernels::megatron;
  return e.kernels.eager && !e.kernels.fused_optimizer ? UpdateKernels::torch : UpdateKernels::one;
}

std::vector<OpWork> update_kernels(Optimizer optimizer, std::int64_t parameters,
                                   UpdateKernels how) {
  const OpWork whole = update_work(optimizer, parameters);
  if (optimizer != Optimizer::adam || how == UpdateKernels::one) return {whole};
  std::vector<OpWork> kernels;
  const auto add = [&](std::initializer_list<std::int64_t> words) {
    for (const std::int64_t count : words)
      kernels.push_back({.flops = parameters, .traffic = bytes_of(count * parameters)});
  };
  if (how == UpdateKernels::torch) {
    // Words that each reads and writes: the norm 1, scaled 2; m *= b 2; m += (1 - b) g 3; v *= c 2;
    // v += (1 - c) g g 3; the root of v, over a number, plus e 2 each; w -= r m / that 4.
    add({1, 2, 2, 3, 2, 3, 2, 2, 2, 4});
    return kernels;
  }
  // The same of gradients in one buffer of 32 bits: set to zero 1, divided by the number of
  // replicas 2, unscaled and checked 2, their norm 1, scaled by it 2. A buffer of 16 bits moves as
  // many bytes: zeros 2, divided 4, and copied into 32 bits 6. The copy of the weights in 16 bits
  // is made behind (transform `precision`). Source: Megatron-LM of 2022, model/distributed.py
  // (zero_grad_buffer, allreduce_gradients), optimizer/optimizer.py
  // (Float16OptimizerWithFloat16Params::step), optimizer/clip_grads.py.
  add({1, 2, 2, 1, 2});
  kernels.push_back(whole);
  return kernels;
}

std::string_view update_kind(Optimizer optimizer) {
  return update_by[static_cast<std::size_t>(optimizer)].first;
}

std::string module_path(std::string_view name) {
  std::string path(name);
  std::ranges::replace(path, '/', '.');
  return path;
}

Trace expand(const Model& model, const Expansion& e) {
  Trace trace{.name = fmt::format("{}-b{}", model.name(), e.batch),
              .source = "from the published structure",
              .batch = e.batch};
  trace.graph = e.level == Level::tf1 ? tf1::op_graph(model, e) : module_graph(model, e);
  return trace;
}

}  // namespace baechi::generate
