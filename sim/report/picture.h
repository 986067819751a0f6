/// The data of a step's picture on a web page: slices too short to be seen are merged.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "sim/report/path_part.h"
#include "sim/report/timeline.h"

namespace baechi {

/// Limits of a picture, summed over the devices.
struct PictureSize {
  std::size_t computing = 2400;  ///< slices of ops
  std::size_t transfers = 1200;  ///< slices of sends, and as many of receives
  std::size_t memory = 1200;     ///< samples
  std::size_t path = 600;        ///< parts of the critical path
};

/// JSON on one line. Times are whole `quantum` nanoseconds, sizes whole `unit` bytes:
///   {"ns": length of the step, "quantum": ns, "unit": bytes,
///    "oom": null or {"device": number, "ns": when, "op": name, "needed": bytes, "free": bytes},
///    "path": [start, length, op, parts, kind, device, ...] (the critical path; kind: PathKind),
///    "devices": [{"name", "limit": bytes, "busy": ns, "peak": bytes,
///      "compute": [start, length, op, ops, phase, group, ...],
///      "send": [start, length, producer, tensors, to, ...], "receive": [..., from, ...],
///      "memory": [at, weights, outputs, copies, workspace, ...]}]}
/// and "roofline" next to "devices", unless `roofline` is "" (sim/report/roofline.h).
/// Each start and each `at` is relative to the previous one. A slice is one op or transfer, or
/// several too close to be distinguished: then op, phase and group (or producer and peer) are those
/// of the longest one. Phase: 0 forward, 1 backward, 2 update; group 0: none.
/// A sample of memory holds until the next one; the samples include the peak of every device.
std::string picture(const Problem& problem, const Timeline& timeline, const StepResult& result,
                    std::span<const PathPart> path = {}, const PictureSize& size = {},
                    std::string_view roofline = {});

}  // namespace baechi
