/// What a training framework takes of a device's memory besides the tensors of the model.
#pragma once
#include <array>

#include "scenarios/planning/parallel_step.h"

namespace baechi {

/// Bytes of the framework's allocator for as long as the training lives: workspaces of cuBLAS.
Bytes framework_workspace(Framework framework, const DeviceModel& gpu);

/// Whether the job's framework adds up gradients of weights in 32 bits though weights are in
/// `precision`.
bool adds_in_32_bits(const TrainingJob& job, std::string_view precision);

/// Whether sums of 16-bit gradients move as many bytes as of 32 bits.
bool sums_take_as_in_32_bits(const TrainingJob& job);

/// What the framework's products keep of their inputs in `precision`: a word of the generators'
/// `kept_inputs`; "": the numbers themselves.
std::string kept_inputs(Framework framework, std::string_view precision);

/// Whether the framework casts all gradients of a rank to 32 bits before it updates anything, and
/// keeps both until it has.
bool casts_all_gradients(Framework framework);

/// How collectives and ops that run beside each other slow each other, as EngineOptions has it.
struct Contention {
  double overlapped = 1.0, disturbed = 1.0;
};
Contention contention_of(Framework framework);

/// When gradients are sent with ZeRO 0 and 1: as Megatron-LM does or, on kinds of devices that are
/// not fitted to it, as PyTorch's DistributedDataParallel and DeepSpeed.
std::array<Sending, 2> usual_sending(const DeviceModel& gpu);

/// Whether a device computes while it sends to a stage, or receives from one.
bool computes_while_sending(Framework framework);

/// Tells `options` what the job's framework moves in a device's memory before gradients are sent
/// and after weights are gathered, and whether new weights are broadcast.
void add_moves(const TrainingJob& job, std::string_view precision, DataParallelOptions& options);

}  // namespace baechi
