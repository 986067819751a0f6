/// The generators of schedules, each in a file of schedules/, and their common functions.
#pragma once
#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {

Schedule inference(const Shape& shape);
Schedule gpipe(const Shape& shape);
Schedule one_forward_one_backward(const Shape& shape);  ///< PipeDream's: an update after each B
Schedule flushed_1f1b(const Shape& shape);              ///< the same order, one update at the end
Schedule interleaved(const Shape& shape);
Schedule zb_h1(const Shape& shape);
Schedule zb_h2(const Shape& shape);
Schedule zb_v(const Shape& shape);
Schedule dualpipe(const Shape& shape);

/// A schedule without passes.
Schedule empty_schedule(const Shape& shape, std::size_t chunks);
/// Pass of a chunk and a micro-batch given as numbers of any type.
Pass pass(PassKind kind, std::size_t chunk, std::size_t micro_batch);
/// Appends to each stage U of each of its chunks, with the micro-batch of the chunk's last pass.
void add_updates(Schedule& schedule);

}  // namespace baechi::pipeline
