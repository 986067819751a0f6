/// Weights that wait in the memory of other devices, as a rewrite of the placed step.
#pragma once

#include "sim/transform/transform.h"

namespace baechi {

struct WaitingWeights {
  /// [num_ops] Where an op's weights wait, or an update op runs; its own device: nothing waits.
  IdVector<OpId, DeviceId> home;
  /// [num_ops] By way of whose memory they come: a disk's host; the home itself: directly.
  IdVector<OpId, DeviceId> host;
  std::vector<std::string> module;  ///< [num_ops] weights of equal names are copied together
  std::int64_t prefetch = 0;
};

/// The step of `graph` with copies of waiting weights before each pass that reads them.
/// - prefetch 0 copies a module's weights when the op before the module has ended (accelerate's
///   hooks); p copies them as soon as the buffer of the module that is p + 1 such modules before is
///   free. A control edge carries this, and its latency stands for the launch of the copy.
/// - Copies are tensors with `reference`, so that they take no further memory at home. Caches stay.
/// - An update op with a home runs there: gradients go there as tensors do, also those that are
///   persistent, and new weights come back, unless they wait.
/// Source: Ren et al., "ZeRO-Offload", USENIX ATC 2021; Hugging Face accelerate, hooks.
PlacedStep offloaded(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                     const WaitingWeights& waiting);

}  // namespace baechi
