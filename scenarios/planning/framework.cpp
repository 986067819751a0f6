#include "scenarios/planning/framework.h"

#include <algorithm>
#include <array>

namespace baechi {
namespace {

using namespace literals;

/// Kinds of devices of compute capability 9.0 and above begin so. cuBLAS recommends 32 MiB of
/// workspace there, 4 MiB before. Source: NVIDIA, cuBLAS Library, cublasSetWorkspace.
constexpr std::array<std::string_view, 6> from_hopper{"h100", "h200",  "b200",
                                                      "b300", "gb200", "gb300"};

}  // namespace

/// PyTorch gives each cuBLAS handle 2 x 4 MiB + 8 x 16 KiB, and 32 MiB from Hopper on; the forward
/// pass and the thread of the backward pass have a handle each. Source: PyTorch,
/// aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize(). Megatron-LM's linear layers
/// are those of Transformer Engine, which has one workspace more: 4 MiB, 32 MiB from Hopper on.
/// Source: Transformer Engine, cpp_extensions/gemm.py, get_cublas_workspace_size_bytes().
Bytes framework_workspace(Framework framework, const DeviceModel& gpu) {
  if (framework == Framework::none) return {};
  const bool hopper = std::ranges::any_of(
      from_hopper, [&](std::string_view kind) { return gpu.name.starts_with(kind); });
  const Bytes handle = hopper ? 32_MiB : Bytes{(2 * 4096 + 8 * 16) * std::int64_t{1024}};
  const Bytes engine = hopper ? 32_MiB : 4_MiB;
  return 2 * handle + (framework == Framework::megatron ? engine : Bytes{});
}

/// Source: Megatron-LM, megatron/training/arguments.py: bf16 sets
/// accumulate_allreduce_grads_in_fp32. DeepSpeed, runtime/bf16_optimizer.py: gradients in 32 bits.
/// FSDP, as Composer's `DEFAULT` and torchtitan's configuration have it: reduce_dtype is float32.
/// InternEvo adds up gradients in their own format.
bool adds_in_32_bits(const TrainingJob& job, std::string_view precision) {
  return job.framework != Framework::none && job.framework != Framework::internevo &&
         !job.short_sums && precision != "fp16" && precision != "amp";
}

/// Chosen by measured steps (validate/README.md): NVIDIA trained Llama 3.1 70B by the same plan
/// with sums in 16 bits (NeMo's launcher, 14.6 s) and in 32 (NeMo 2, 14.7 s). Half of the bytes
/// would be 0.7 s less. Products add to the sum themselves; why its format costs nothing is not
/// isolated.
bool sums_take_as_in_32_bits(const TrainingJob& job) {
  return job.short_sums && job.framework == Framework::megatron;
}

/// Megatron-LM's products in few bits are Transformer Engine's, which saves what they multiply.
/// Source: Transformer Engine, pytorch/module/linear.py (saved_inputmat), layernorm_linear.py,
/// grouped_linear.py.
std::string kept_inputs(Framework framework, std::string_view precision) {
  if (framework != Framework::megatron) return "";
  if (precision == "fp8" || precision == "mxfp8") return "fp8";
  return precision == "nvfp4" ? "fp4" : "";
}

/// Source: InternEvo, solver/optimizer/fsdp_optimizer.py, step() (grad_fp32), and
/// hybrid_zero_optim.py, _step() (flat_fp32_avg_grads).
bool casts_all_gradients(Framework framework) {
  return framework == Framework::internevo;
}

/// FSDP and InternEvo leave it to NCCL to gather and scatter beside the ops, on processors that
/// these want, too. Collectives took 1.3 times as long (vTrain, MICRO 2024; Daydream, ATC 2020:
/// 1.34). They use 20 of an H800's 132 processors (DeepSeek-AI, "DeepSeek-V3", 2024, section
/// 3.2.2): 132 / 112. Megatron-LM's recipes exchange tokens by copy engines. Its other collectives
/// slow nothing here: those that send tokens to experts have 32 of 148 processors (Megatron-Bridge,
/// moe_hybridep_num_sms), but only products would wait for these, not passes over memory.
Contention contention_of(Framework framework) {
  switch (framework) {
    case Framework::fsdp:
    case Framework::fsdp2:
    case Framework::internevo:
      return {.overlapped = 1.3, .disturbed = 132.0 / 112.0};
    case Framework::none:
    case Framework::megatron:
    case Framework::deepspeed:
      break;
  }
  return {};
}

std::array<Sending, 2> usual_sending(const DeviceModel& gpu) {
  const bool megatron = gpu.name.ends_with("_megatron");
  return {megatron ? Sending::after : Sending::beside, Sending::after};
}

/// DeepSpeed's stages send and receive in the stream that computes. Source: DeepSpeed,
/// runtime/pipe/p2p.py: dist.send, dist.recv, and not isend, irecv.
bool computes_while_sending(Framework framework) {
  return framework != Framework::deepspeed;
}

/// FSDP's flat parameters: autograd joins the gradients of a unit, which are views of it (reads and
/// writes them), casts them to the format of the sum, and divides them by a part of the number of
/// ranks (reads and writes them there). Source: PyTorch, torch/distributed/fsdp/_flat_param.py,
/// _runtime_utils.py, _post_backward_hook(). fully_shard joins and casts in one kernel, divides
/// beside the sum, and copies what is gathered to single parameters. Source: PyTorch,
/// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py. InternEvo's ZeRO 1: each rank
/// broadcasts the weights that it has changed. Source: InternEvo,
/// solver/optimizer/hybrid_zero_optim.py, broadcast_params().
void add_moves(const TrainingJob& job, std::string_view precision, DataParallelOptions& options) {
  options.broadcasts =
      job.framework == Framework::internevo && options.mode == Synchronisation::zero1;
  const bool flat = job.framework == Framework::fsdp;
  if ((!flat && job.framework != Framework::fsdp2) || !options.sends_each_pass()) return;
  const double weights = precision == "fp32" ? 4.0 : 2.0;
  const double sums = adds_in_32_bits(job, precision) ? 4.0 : weights;
  const double cast = weights + sums;
  if (flat) {
    options.before_sum = (2.0 * weights + (sums != weights ? cast : 0.0) + 2.0 * sums) / sums;
  } else {
    options.before_sum = cast / sums;
    if (options.mode == Synchronisation::zero3) options.after_gather = 2.0;
  }
}

}  // namespace baechi
