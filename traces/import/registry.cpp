#include <filesystem>
#include <new>
#include <system_error>

#include "sim/text.h"
#include "traces/format/trace_file.h"
#include "traces/import/rank_files.h"
#include "traces/importer.h"

namespace baechi {

Precision precision_of_type(std::string_view word) {
  const std::string text = lower(word);
  constexpr std::pair<std::string_view, Precision> words[] = {
      {"bf16", Precision::bf16},    {"bfloat16", Precision::bf16}, {"f16", Precision::fp16},
      {"float16", Precision::fp16}, {"half", Precision::fp16},     {"f8", Precision::fp8},
      {"float8", Precision::fp8},   {"f6e", Precision::fp8},       {"f4", Precision::fp4},
      {"float4", Precision::fp4}};
  for (const auto& [part, precision] : words)
    if (text.find(part) != std::string::npos) return precision;
  return Precision::fp32;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The name with its numbers padded by zeros, so that "2" comes before "10".
std::string sortable(std::string_view name) {
  constexpr std::size_t width = 20;
  std::string text;
  while (!name.empty()) {
    std::size_t digits = 0;
    while (digits < name.size() && is_digit(name[digits])) ++digits;
    if (digits > 0) text.append(width - std::min(digits, width), '0');
    const std::size_t taken = std::max<std::size_t>(1, digits);
    text += name.substr(0, taken);
    name.remove_prefix(taken);
  }
  return text;
}

}  // namespace

std::vector<std::string> numbered_files(const std::string& pattern) {
  namespace fs = std::filesystem;
  const fs::path given(pattern);
  const std::string last = given.filename().string();
  std::vector<std::string> found;
  std::error_code error;
  const fs::path folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const std::string name = entry.path().filename().string();
        Wildcard{last}.matches(name) && entry.is_regular_file(error))
      found.push_back((given.parent_path() / name).string());
  std::ranges::sort(found, {}, [](const std::string& p) {
    return std::pair(sortable(fs::path(p).filename().string()), p);
  });
  return found;
}

std::vector<std::string> rank_files(const std::string& path, Options& options) {
  namespace fs = std::filesystem;
  const std::string pattern =
      options.get("ranks", "",
                  "files of all ranks: a name with * for the rank's number, such as rank*.json, in "
                  "the folder of this file; default: this file is the only rank");
  if (pattern.empty()) return {path};
  const fs::path given(path);
  std::vector<std::string> found = numbered_files((given.parent_path() / pattern).string());
  if (std::ranges::find(found, path) == found.end())
    options.mistake(
        "ranks",
        fmt::format(
            "'{}' does not match {} itself{}", pattern, given.filename().string(),
            pattern.find('/') == std::string::npos
                ? ""
                : ": give file names without a folder, they are in the folder of this file"));
  return found;
}

LooksLike looks_like_chakra, looks_like_doppler, looks_like_dnn_partitioning, looks_like_graphml,
    looks_like_hlo, looks_like_kineto, looks_like_onnx, looks_like_pipedream, looks_like_piper,
    looks_like_tensorflow, looks_like_pytorch;
ReadFile read_chakra, read_doppler, read_dnn_partitioning, import_graphml, read_hlo, read_kineto,
    read_onnx, read_pipedream, read_piper, read_tensorflow, read_pytorch;

std::span<const ImporterEntry> importers() {
  static constexpr ImporterEntry table[] = {
      {"baechi", "our own format, traces/README.md", R"(JSON with "format": "baechi-trace")",
       looks_like_baechi_trace, read_baechi_trace},
      {"dnn_partitioning", "workloads of Tarnawski et al., NeurIPS 2020 (msr-fiddle)",
       R"(JSON with "maxFPGAs", "nodes" and "edges")", looks_like_dnn_partitioning,
       read_dnn_partitioning},
      {"pipedream", "profiles of PipeDream, SOSP 2019 (graph.txt)",
       "lines 'node1 -- Conv2d(...) -- forward_compute_time=...'", looks_like_pipedream,
       read_pipedream},
      {"piper", "layers of Piper's planner, NeurIPS 2021 (msr-fiddle/piper)",
       R"(JSON with "nodes", "TMPCs", "maxMemoryPerDevice")", looks_like_piper, read_piper},
      {"doppler", "graphs of DOPPLER, ICLR 2026 (gdp_*.txt)",
       "lines: number of nodes, inputs, sources, destinations, then 'compute,comm,kind' per op",
       looks_like_doppler, read_doppler},
      {"pytorch", "a recorded PyTorch step: its execution trace, with times from a Kineto trace",
       R"(JSON with "schema", "nodes" and "rf_id", by torch.profiler.ExecutionTraceObserver)",
       looks_like_pytorch, read_pytorch},
      {"kineto", "a step timed by PyTorch's profiler: host, streams and collectives in lanes",
       R"(JSON with "traceEvents", by torch.profiler's export_chrome_trace)", looks_like_kineto,
       read_kineto},
      {"onnx", "a model's forward pass: shapes are inferred, work is by formula",
       "protocol buffers: ir_version, producer_name, graph", looks_like_onnx, read_onnx, true},
      {"chakra", "a Chakra execution trace: what each rank computes and communicates",
       R"(protocol buffers (.et), or JSON with "workload_graph")", looks_like_chakra, read_chakra,
       true},
      {"tensorflow", "a graph of TensorFlow 1, with recorded costs",
       "GraphDef or SavedModel, in protocol buffers or as text (.pb, .pbtxt)",
       looks_like_tensorflow, read_tensorflow, true},
      {"hlo", "an XLA or JAX program: shapes from the file, work by formula",
       "optimised HLO text (HloModule ...), or StableHLO (module ... func.func)", looks_like_hlo,
       read_hlo},
      {"graphml", "graphs as NetworkX writes them", "XML with <graphml>", looks_like_graphml,
       import_graphml},
  };
  return table;
}

namespace {

const ImporterEntry& importer_called(std::string_view name) {
  return find_entry(importers(), "importer", name);
}

const ImporterEntry* importer_of(const TextFile& file) {
  for (const ImporterEntry& entry : importers())
    if (entry.recognises(file.beginning())) return &entry;
  return nullptr;
}

const ImporterEntry& importer_for(const TextFile& file) {
  if (const ImporterEntry* entry = importer_of(file)) return *entry;
  require_kind(file, "a graph");
  file.require_text();
  std::string known;
  for (const ImporterEntry& entry : importers())
    known += fmt::format("\n  {}: {}", entry.name, entry.files);
  throw InputError(
      fmt::format("{}: no importer recognises this file; importers:{}", file.path(), known));
}

}  // namespace

void require_kind(const TextFile& file, std::string_view wanted) {
  std::string kind = kind_of_file(file.beginning(), file.path());
  if (kind.starts_with(wanted)) return;
  if (const ImporterEntry* entry = importer_of(file);
      entry != nullptr && !kind.starts_with("a timeline of a step"))
    kind = fmt::format(
        "a graph, which importer {} reads: 'baechi place', 'simulate' and 'what-if FILE RULES "
        "--devices N' take it, and a scenario by 'graph: {{import: FILE}}'",
        entry->name);
  if (!kind.empty()) throw InputError(fmt::format("{}: not {}, but {}", file.path(), wanted, kind));
}

Trace read_trace(TextFile& file, std::string_view importer, Options options) {
  if (file.beginning().empty()) throw InputError(fmt::format("{}: the file is empty", file.path()));
  const ImporterEntry& entry = importer.empty() ? importer_for(file) : importer_called(importer);
  if (!entry.binary) file.require_text();
  Trace trace;
  try {
    trace = entry.read(file, options);
  } catch (const std::bad_alloc&) {
    throw HostMemoryError(fmt::format("reading {}, {} of {} bytes so far", file.path(),
                                      file.bytes_read().load(), file.bytes()));
  }
  options.finish();
  trace.format = entry.name;
  trace.coverage = coverage(trace.graph);
  return trace;
}

Trace read_trace(const std::string& path, std::string_view importer, Options options) {
  if (!importer.empty()) importer_called(importer);  // rejects an unknown name before a long read
  TextFile file(path, Content::any);
  return read_trace(file, importer, std::move(options));
}

}  // namespace baechi
