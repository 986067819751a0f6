/// A second, simple simulator of pipelines: the reference for sim/pipeline. It uses passes and
/// their times, without ops, graphs or the engine.
#pragma once
#include <map>

#include "sim/pipeline/schedule.h"

namespace baechi::testing {

/// A chain of chunks. All times are whole nanoseconds; W takes 0 in chunks without W.
struct StrictPipeline {
  struct Chunk {
    Duration forward{}, backward{}, weights{}, update{};
    Duration sends_forward{}, sends_backward{};  ///< to the next, and to the previous chunk
    Duration sum{};  ///< gradient reduction over replicas, or between its two devices
  };
  std::vector<Chunk> chunks;
  std::vector<std::vector<pipeline::Pass>> passes;  ///< [stages], in order
  std::vector<std::vector<std::size_t>> homes;      ///< [stages], the chunks whose gradients it has
  std::size_t ahead = 0;  ///< most micro-batches by which F of a chunk leads the next chunk
  bool split = false;     ///< W is a separate pass; else it follows B, which sends before W
  bool pairs = false;     ///< two stages hold each chunk: its reduction waits for both
  bool sums = false;      ///< reduction over replicas, by chunk, the last chunk of a stage first
  Duration launch{};      ///< per op, by the stage's host, which does not wait for the device
};

/// The rules:
/// - A stage runs one pass at a time, in order, and a pass begins when its inputs have arrived: F
///   needs the F of the previous chunk (and, with `ahead`, the F of the next chunk that many
///   micro-batches earlier), B its own F and the B of the next chunk, W its own B.
/// - Transfers take their time without contention.
/// - A reduction starts when the last gradient of the chunk on the stage is computed and the
///   stage's previous reduction has ended. It overlaps with passes.
/// - Updates of a stage run after its passes and reductions, one after the other.
/// - With `launch`, no op starts before the host has launched it; the host launches all ops of a
///   stage one after the other, in the order in which they run.
/// Returns the end of each op, by name: f, r (recomputed F), b, w or u, the chunk, and the
/// micro-batch: "b2#0".
std::map<std::string, Duration> strict_ends(const StrictPipeline& pipeline);

}  // namespace baechi::testing
