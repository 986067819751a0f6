/// Writes placements in the formats of frameworks.
#pragma once

#include "scenarios/run/experiment.h"

namespace baechi {

enum class ExportFormat : std::uint8_t { accelerate, pipelining, json, llamacpp, vllm, megatron };
constexpr auto names_of(ExportFormat) {
  return std::to_array<Named<ExportFormat>>({{ExportFormat::accelerate, "accelerate"},
                                             {ExportFormat::pipelining, "pipelining"},
                                             {ExportFormat::json, "json"},
                                             {ExportFormat::llamacpp, "llamacpp"},
                                             {ExportFormat::vllm, "vllm"},
                                             {ExportFormat::megatron, "megatron"}});
}

/// The inputs of an export besides the placement.
struct ExportTask {
  const Experiment& experiment;
  const Placer& placer;
  std::string_view placer_name;
  std::uint64_t seed = 0;
  const std::string& graph_name;
  const std::string& path;              ///< of the file
  std::vector<std::string> no_split{};  ///< modules that stay whole, as DivisionRules has them
  std::size_t stages = 0;               ///< of a pipeline; 0: as many as are fastest
};

/// Throws InputError, which names TRACE, if no op of the graph has a module.
void require_modules(const Experiment& experiment, const std::string& trace);

/// Writes the file and returns lines with the step times before and after:
/// - accelerate: the `device_map` of Hugging Face's accelerate, a JSON object from module to device
///   number, or "cpu" or "disk" for a device whose type begins with this word. The fastest of the
///   placement rounded to whole modules and of the placer's and auto's placements of whole modules,
///   then improved by refine.
/// - pipelining: split points, devices and schedule for torch.distributed.pipelining, JSON. The
///   stages have the shortest longest stage over all numbers of devices and two schedules, then the
///   least time per micro-batch; the placement is not used.
/// - llamacpp, vllm, megatron: the arguments that split layers as the placement does; InputError
///   names an op that they cannot place.
/// - json: the placement file; no lines.
/// If nothing fits in memory, writes no file, and the lines say so.
std::string export_placement(ExportFormat format, const ExportTask& task,
                             const Placement& placement);

}  // namespace baechi
