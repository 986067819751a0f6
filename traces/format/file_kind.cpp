#include <algorithm>

#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view without_space(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string_view{} : text.substr(first);
}

/// Fixed bytes of a format.
struct Signature {
  std::size_t at;
  std::string_view bytes, kind;
};

using namespace std::string_view_literals;

constexpr std::string_view results =
    "results of 'baechi run': 'baechi compare FOLDER', 'report FOLDER' and 'explain FOLDER --run "
    "ID' read their folder; the scenario names its graphs";

/// Results are SQLite, too: see kind_of_file().
constexpr Signature signatures[] = {
    {0, "SQLite format 3\0"sv,
     "a SQLite database, such as an export of Nsight Systems: it has kernels but no tensors; "
     "record the step with torch.profiler, whose two files make a graph (traces/README.md)"},
    {257, "ustar"sv, "a tar archive: unpack it, and give the file in it"},
    {0, "PK\x05\x06"sv, "an empty zip archive"},
    {0, "\x89HDF\r\n\x1a\n"sv,
     "an HDF5 file, as Keras saves weights in: it has no graph of ops; record a step of the model"},
    {0, "\x93NUMPY"sv, "a NumPy array: it has no graph of ops"},
    {0, "GGUF"sv, "weights in GGUF: 'baechi fit', 'place' and 'plan' take them, not compressed"},
    {0, "\177ELF"sv, "a program or library"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "\x89PNG"sv, "a picture"},
    {0, "BZh"sv, "packed by bzip2: unpack it first (bunzip2)"},
    {0, "\3757zXZ"sv, "packed by xz: unpack it first (unxz)"},
    {0, "\x80\x02"sv, "a Python pickle: export a graph from the program that wrote it"},
    {0, "\x80\x03"sv, "a Python pickle: export a graph from the program that wrote it"},
    {0, "\x80\x04"sv, "a Python pickle: export a graph from the program that wrote it"},
};

std::string zip(std::string_view path) {
  if (path.ends_with(".pt2"))
    return "a program of torch.export: load it with torch.export.load(), and record a step of it "
           "with torch.profiler (traces/README.md)";
  if (path.ends_with(".pt") || path.ends_with(".pth") || path.ends_with(".ckpt") ||
      path.ends_with(".bin"))
    return "weights or a model saved by torch.save(): load it, and record a step with "
           "torch.profiler (traces/README.md)";
  if (path.ends_with(".npz")) return "NumPy arrays: it has no graph of ops";
  return "a zip archive: unpack it, and give the file in it";
}

/// Recognises protocol buffers, which have no signature, by their first fields.
std::string protocol_buffer(std::string_view bytes, std::string_view path) {
  // RunMetadata begins with StepStats, DeviceStepStats and a device's name.
  if (bytes.starts_with('\x0a') && bytes.substr(0, 64).find("/job:") != std::string_view::npos)
    return "run metadata of TensorFlow: give the graph that it belongs to, and this as option "
           "costs (--importer tensorflow:costs=FILE)";
  // StableHLO's portable form: bytecode of MLIR.
  if (bytes.starts_with("ML\xefR"))
    return "bytecode of MLIR: turn it into text first (stablehlo-translate --deserialize)";
  // ModelProto begins with ir_version (field 1, a small number) and producer_name (field 2).
  const bool onnx = bytes.size() > 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 &&
                    (bytes[2] == 0x12 || bytes[2] == 0x3a);
  if (onnx || path.ends_with(".onnx")) return "an ONNX model, which importer onnx reads";
  if (path.ends_with(".et")) return "a Chakra execution trace, which importer chakra reads";
  if (path.ends_with(".pb"))
    return "a protocol buffer, such as a graph of TensorFlow, which importer tensorflow reads";
  if (path.ends_with(".nsys-rep") || path.ends_with(".qdrep"))
    return "a report of Nsight Systems: it has kernels but no tensors; record the step with "
           "torch.profiler, whose two files make a graph (traces/README.md)";
  return "";
}

std::string safetensors(std::string_view bytes) {
  return bytes.size() > 9 && bytes[8] == '{' && bytes[7] == '\0'
             ? "weights in safetensors: it has no graph of ops; record a step of the model"
             : "";
}

std::string text(std::string_view beginning) {
  const std::string_view start = without_space(beginning);
  if (start.starts_with("HloModule")) return "HLO text of XLA, which importer hlo reads";
  if (start.starts_with("hlo_module") || (start.starts_with("name:") && has(start, "computations")))
    return "a module of XLA as a protocol buffer: dump it as text "
           "(XLA_FLAGS=--xla_dump_hlo_as_text)";
  if (start.starts_with("module") && (has(start, "stablehlo.") || has(start, "mhlo.")))
    return "StableHLO without a function, or in a form that importer hlo does not read: print it "
           "with --mlir-print-op-generic=false";
  if (has(start, "ir_version:") && (has(start, "graph {") || has(start, "opset_import")))
    return "an ONNX model as text: write it as protocol buffers first, with onnx.save() after "
           "onnx.load(FILE, format='textproto') or onnx.parser.parse_model()";
  if (start.starts_with("digraph") || start.starts_with("strict digraph"))
    return "a picture in DOT: it has no times; DOT is written here, never read";
  if (start.starts_with("node {") || start.starts_with("node{"))
    return "a graph of TensorFlow as text, which importer tensorflow reads";
  if (start.starts_with("step_stats"))
    return "run metadata of TensorFlow as text: give the graph that it belongs to, and this as "
           "option costs (--importer tensorflow:costs=FILE)";
  for (const std::string_view page : {"<!DOCTYPE html", "<!doctype html", "<html"})
    if (start.starts_with(page))
      return has(start, "<title>") && has(start, "color-scheme: light dark")
                 ? "a report of 'baechi run': the scenario that made it names its graphs"
                 : "a web page";
  if (start.starts_with("id,scenario,graph,")) return std::string(results);
  if (start.starts_with("version https://git-lfs"))
    return "a pointer of Git LFS, not the file: fetch it with 'git lfs pull'";
  if (has(start, "\"workload_graph\""))
    return "a Chakra execution trace as its feeder writes it, which importer chakra reads";
  if (has(start, "\"traceEvents\"") && has(start, "\"cat\":\"op\""))
    return "a timeline of a step that this program simulated: give the graph of the step";
  if (has(start, "\"baechi-placement\""))
    return "a placement: 'baechi simulate GRAPH --placement FILE' takes it";
  if (start.starts_with('{') && has(start, "\"lower_bound_us\""))
    return "an answer of this program: no verb reads it";
  if (start.starts_with('{') && has(start, "\"model_type\""))
    return "the configuration of a model: 'baechi fit', 'place' and 'plan' take it as config.json";
  if (start.starts_with("\\begin{tabular}")) return "a table in LaTeX: no verb reads it";
  for (const std::string_view key : {"cluster:", "placers:", "graph:"})
    if (start.starts_with(key) || has(start, '\n' + std::string(key)))
      return "a scenario: 'baechi run' runs it";
  for (const std::string_view key :
       {"- scale:", "- set:", "- remove:", "- merge:", "- insert:", "with:", "every:", "rules:"})
    if (start.starts_with(key) || has(start, '\n' + std::string(key)))
      return "rules: 'baechi what-if GRAPH FILE' takes them";
  if (has(start, "device_time_total") || has(start, "\"categories\""))
    return "a memory timeline of torch.profiler: give its execution trace, and its Kineto trace";
  if (has(start, "import torch") || has(start, "def forward"))
    return "a Python program: record a step of it with torch.profiler (traces/README.md)";
  return "";
}

}  // namespace

std::string kind_of_file(std::string_view beginning, std::string_view path) {
  for (const std::string_view packed : {".gz", ".zst"})
    if (path.ends_with(packed)) path.remove_suffix(packed.size());
  if (beginning.starts_with("SQLite format 3") && has(beginning, "CREATE TABLE results"))
    return std::string(results);
  for (const Signature& s : signatures)
    if (beginning.size() >= s.at && beginning.substr(s.at).starts_with(s.bytes))
      return std::string(s.kind);
  if (beginning.starts_with("PK\x03\x04")) return zip(path);
  if (const bool binary = beginning.find('\0') != std::string_view::npos; !binary)
    if (std::string kind = text(beginning); !kind.empty()) return kind;
  if (std::string kind = safetensors(beginning); !kind.empty()) return kind;
  return protocol_buffer(beginning, path);
}

}  // namespace baechi
