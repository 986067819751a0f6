/// A step small enough for a page to draw: what is too short to be seen is drawn together.
#pragma once
#include <string>

#include "sim/report/timeline.h"

namespace baechi {

/// How much of a step a picture holds, over all its devices.
struct PictureSize {
  std::size_t computing = 2400;  ///< slices of ops
  std::size_t transfers = 1200;  ///< slices of what is sent, and of what is received
  std::size_t memory = 1200;     ///< samples
};

/// JSON on one line. Times are whole `quantum` nanoseconds, sizes whole `unit` bytes:
///   {"ns": length of the step, "quantum": ns, "unit": bytes,
///    "oom": null or {"device": number, "ns": when, "op": name, "needed": bytes, "free": bytes},
///    "devices": [{"name", "limit": bytes, "busy": ns, "peak": bytes,
///      "compute": [start, length, op, ops, phase, group, ...],
///      "send": [start, length, producer, tensors, to, ...], "receive": [..., from, ...],
///      "memory": [at, weights, outputs, copies, workspace, ...]}]}
/// Each start, and each `at`, is counted from the one before it. A slice is one op or transfer, or
/// several that are too close to be told apart: then `op`, phase and group, or producer and peer,
/// are those of the longest. Phase: 0 forward, 1 backward, 2 update; group 0 is none.
/// Memory holds from its sample on; the most in use of every device is among them.
std::string picture(const Problem& problem, const Timeline& timeline, const StepResult& result,
                    const PictureSize& size = {});

}  // namespace baechi
