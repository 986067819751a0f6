/// A second, plain simulator of pipelines: the reference for sim/pipeline. It knows passes and
/// their times, and neither ops, graphs nor the engine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "sim/pipeline/schedule.h"

namespace baechi::testing {

/// A chain of chunks. All times are whole nanoseconds; a chunk's W is of no length if it has none.
struct StrictPipeline {
  struct Chunk {
    Duration forward{}, backward{}, weights{}, update{};
    Duration sends_forward{}, sends_backward{};  ///< to the next chunk, to the one before
    Duration sum{};  ///< its gradients are added up over replicas, or between its two devices
  };
  std::vector<Chunk> chunks;
  std::vector<std::vector<pipeline::Pass>> passes;  ///< [stages], in order
  std::vector<std::vector<std::size_t>> homes;      ///< [stages], the chunks whose gradients it has
  std::size_t ahead = 0;  ///< F of a chunk is at most so many micro-batches ahead of the next one
  bool split = false;     ///< W is a pass of its own; else it follows B, which sends before W
  bool pairs = false;     ///< two stages have a chunk: its sum waits for both
  bool sums = false;      ///< over replicas, chunk by chunk, the last chunk of a stage first
  Duration launch{};  ///< of each op by the host of its stage, which does not wait for the device
};

/// The rules:
/// - A stage runs one pass at a time, in order, and a pass begins when its inputs are there: F
/// needs
///   the F of the chunk before (and, with `ahead`, the F of the chunk behind that many
///   micro-batches earlier), B the own F and the B of the chunk behind, W the own B.
/// - What is sent arrives a time after its op, whatever else is sent.
/// - A sum starts when the last gradient of the chunk on the stage is made, and the sum before it
/// on
///   the stage has ended. Beside it, passes go on.
/// - Updates of a stage run after its passes and sums, one after the other.
/// - With `launch`, no op starts before the host has launched it; the host launches all ops of a
///   stage one after the other, in the order in which they run.
/// Returns the end of each op, by the names f, r (F again), b, w and u with the chunk: "b2#0" is of
/// micro-batch 0.
std::map<std::string, Duration> strict_ends(const StrictPipeline& pipeline);

}  // namespace baechi::testing
