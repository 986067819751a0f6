#include "traces/generate/expand.h"

#include <algorithm>

#include "sim/enum_option.h"

namespace baechi::generate {

Expansion read_expansion(Options& o, std::int64_t batch, Optimizer optimizer) {
  Expansion e;
  e.batch = o.get("batch", batch, "samples per step", 1);
  constexpr std::int64_t most = 1'000'000;
  if (e.batch > most) {
    o.mistake("batch", fmt::format("more than {}", most));
    e.batch = most;
  }
  e.level = read_enum(o, "level", Level::module,
                      "an op per module, as PyTorch; or the ops of TensorFlow 1.12");
  e.optimizer = read_enum(o, "optimizer", optimizer, "what updates the weights");
  e.training = o.get("training", true, "with backward and update ops");
  e.fuse_modules = o.get("fuse_modules", true,
                         "level module: an op for a convolution with its batch norm and ReLU");
  e.copy_sums =
      o.get("copy_sums", e.copy_sums,
            "level module: the backward op of a sum copies its gradient, which frameworks "
            "only hand on; the arena's instances keep it");
  e.fuse_relu = o.get("fuse_relu", e.fuse_relu,
                      "level module: a ReLU runs in the kernel of the layer before it, as XLA's, "
                      "MXNet's and cuDNN's do");
  if (e.fuse_relu && e.level == Level::tf1)
    o.mistake("fuse_relu", "TensorFlow 1 launches each ReLU; level module can fuse it");
  e.split_backward =
      o.get("split_backward", e.split_backward,
            "level module: an op for the gradients that layers before wait for, and another for "
            "those of the weights, as zero-bubble schedules and sequence_parallel need them");
  if (e.split_backward && e.level == Level::tf1)
    o.mistake("split_backward", "TensorFlow 1 splits it anyway; level module");
  e.kept_inputs = read_enum(
      o, "kept_inputs", e.kept_inputs,
      "level module: what products in layers keep of what they read, for the gradients of their "
      "weights, once the transform precision has halved all other bytes");
  if (e.kept_inputs != KeptInputs::whole && e.level == Level::tf1)
    o.mistake("kept_inputs", "TensorFlow 1 keeps its tensors; level module");
  e.eager =
      o.get("eager", e.eager,
            "level module, of bert, gpt, llama and moe: kernels as PyTorch launches them without a "
            "compiler or fused modules, in a training of 16 bits");
  if (e.eager && e.level == Level::tf1) o.mistake("eager", "TensorFlow 1 has graphs; level module");
  e.fused_update = o.get("fused_update", e.fused_update,
                         "the optimizer is one kernel also with `eager`, as NVIDIA Apex has it");
  e.colocate_gradients = o.get("colocate_gradients", true,
                               "level tf1: gradient ops share the group of their forward op");
  return e;
}

int slots(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::none:
    case Optimizer::sgd:
      return 0;
    case Optimizer::momentum:
      return 1;
    case Optimizer::adam:
    case Optimizer::rmsprop:
      return 2;
  }
  return 0;
}

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
  return e.eager && !e.fused_update ? UpdateKernels::torch : UpdateKernels::one;
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
  switch (optimizer) {
    case Optimizer::none:
      return "NoOp";
    case Optimizer::sgd:
      return "ApplyGradientDescent";
    case Optimizer::momentum:
      return "ApplyMomentum";
    case Optimizer::adam:
      return "ApplyAdam";
    case Optimizer::rmsprop:
      return "ApplyRMSProp";
  }
  return "";
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
