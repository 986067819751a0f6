/// Writes a placement as frameworks take it.
#pragma once
#include <string>

#include "scenarios/run/experiment.h"
#include "sim/names.h"

namespace baechi {

enum class ExportFormat : std::uint8_t { accelerate, pipelining, json };
constexpr auto names_of(ExportFormat) {
  return std::to_array<Named<ExportFormat>>({{ExportFormat::accelerate, "accelerate"},
                                             {ExportFormat::pipelining, "pipelining"},
                                             {ExportFormat::json, "json"}});
}

/// What an export takes besides the placement.
struct ExportTask {
  const Experiment& experiment;
  const Placer& placer;
  std::uint64_t seed = 0;
  const std::string& graph_name;
  const std::string& path;  ///< of the file
};

/// Throws InputError, which names TRACE, if no op of the graph has a module.
void require_modules(const Experiment& experiment, const std::string& trace);

/// Writes the file and returns lines that say what the step costs before and after:
/// - accelerate: the `device_map` of Hugging Face's accelerate, a JSON object from module to device
///   number. It is the placement rounded to whole modules or the placer's answer for whole modules,
///   whichever has the shorter step.
/// - pipelining: split points, devices and schedule for torch.distributed.pipelining, JSON. The
///   stages are the line nearest to the placement or the most even one, under one of two schedules:
///   the combination with the least time per micro-batch.
/// - json: the placement file; no lines.
/// If nothing fits in memory, writes nothing, and the lines say so.
std::string export_placement(ExportFormat format, const ExportTask& task,
                             const Placement& placement);

}  // namespace baechi
