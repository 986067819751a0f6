#include "scenarios/planning/framework.h"

#include <filesystem>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "traces/format/compressed_file.h"
#include "traces/generate/expand.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;
using Value = Options::Value;

std::string frameworks_folder() { return data_folder() + "/scenarios/frameworks"; }

std::vector<std::string> known_frameworks() {
  std::vector<std::string> names{"none"};
  std::error_code none;
  for (const fs::directory_entry& file : fs::directory_iterator(frameworks_folder(), none))
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  std::ranges::sort(names);
  return names;
}

/// The option `kernels` as a mapping, in whichever form it is given.
Value mapping_of(const Value& kernels) {
  Value mapping{.text = "", .where = kernels.where, .children = {}};
  for (auto& [name, value] : generate::entries_of(kernels))
    mapping.children.emplace_back(name, value);
  return mapping;
}

/// The file of a name, with what it leaves out as its `like` has it.
Value section_of(const std::string& name, const std::string& base, const std::string& where,
                 int depth = 0);

Value with_like(Value section, const std::string& base, int depth = 0) {
  const Value* like = find(section, "like");
  if (like == nullptr) return section;
  constexpr int most = 8;
  if (depth == most) throw InputError(fmt::format("{}like: {} files deep", at(like->where), most));
  const Value before = section_of(like->text, base, like->where, depth + 1);
  erase(section, "like");
  for (const auto& [key, value] : before.children) {
    Value* own = find(section, key);
    if (own == nullptr) {
      section.children.emplace_back(key, value);
    } else if (key == "kernels") {
      *own = mapping_of(*own);
      for (const auto& [kernel, said] : generate::entries_of(value))
        if (find(*own, kernel) == nullptr) own->children.emplace_back(kernel, said);
    }
  }
  return section;
}

Value section_of(const std::string& name, const std::string& base, const std::string& where,
                 int depth) {
  if (name == "none") return {};
  const bool file = name.ends_with(".yaml") || name.ends_with(".yml");
  const std::vector<std::string> known = known_frameworks();
  if (!file && std::ranges::find(known, name) == known.end())
    throw InputError(
        fmt::format("{}framework: {}, nor FILE.yaml", at(where), not_one_of(name, known)));
  const std::string path = !file ? fmt::format("{}/{}.yaml", frameworks_folder(), name)
                           : base.empty() || name.starts_with('/')
                               ? name
                               : (fs::path(base) / name).string();
  return with_like(parse_yaml(read_file(path), path), fs::path(path).parent_path().string(), depth);
}

std::vector<std::string> texts_in(Options& o, const char* key, std::string_view help) {
  std::vector<std::string> all;
  if (const Value* given = o.raw(key, help)) {
    for (const auto& [name, item] : given->children) all.push_back(item.text);
    if (given->children.empty() && !given->text.empty()) all.push_back(given->text);
  }
  return all;
}

std::map<double, Bytes> workspaces_of(Options& o) {
  std::map<double, Bytes> workspaces;
  const Value* given = o.raw("workspace",
                             "bytes that stay allocated, by the least compute "
                             "capability: {0: 16640 KiB, 9.0: 64 MiB}");
  if (given == nullptr) return workspaces;
  for (const auto& [from, size] : given->children) {
    const auto capability = parse_number<double>(from);
    const auto bytes = parse_bytes(size.text);
    if (capability && bytes)
      workspaces[*capability] = *bytes;
    else
      o.mistake("workspace", fmt::format("'{}: {}' is not 9.0: 64 MiB", from, size.text));
  }
  return workspaces;
}

Framework framework_of(Options& o) {
  Framework f;
  o.get("summary", "", "what it is");
  f.workspace = workspaces_of(o);
  f.grad_reduce_in_fp32 = o.get("grad_reduce_dtype", {"weights", "fp32"}, "of gradients") == "fp32";
  f.fp32_accumulation_traffic =
      o.get("fp32_accumulation_traffic", false,
            "adding up gradients of micro-batches moves as much in 16 bits as in 32");
  f.quantized_saved_inputs =
      o.get("quantized_saved_inputs", false, "GEMMs in 8 or 4 bits save what they multiply");
  f.fp32_gradients_before_update =
      o.get("fp32_gradients_before_update", false,
            "all gradients are cast to 32 bits, and kept in both, before anything is updated");
  f.multi_tensor_update = o.get("multi_tensor_update", false,
                                "the optimizer has two more numbers for each parameter meanwhile");
  f.overlapped_collectives_slowdown = o.get("overlapped_collectives_slowdown", 1.0,
                                            "of collectives that overlap with kernels", 1.0);
  f.overlapped_compute_slowdown =
      o.get("overlapped_compute_slowdown", 1.0, "of kernels that overlap with collectives", 1.0);
  f.blocking_p2p = o.get("blocking_p2p", false, "stages send and receive in the compute stream");
  f.broadcast_weights =
      o.get("broadcast_weights", false, "ZeRO 1: each rank broadcasts the weights it has updated");
  f.sharded_gradients = read_enum(o, "sharded_gradients", f.sharded_gradients,
                                  "how gradients of sharded weights come into the reduced buffer");
  f.selective_recompute_operators =
      o.get("selective_recompute", {"attention", "operators"},
            "--recompute selective: attention's core, or all else but every second GEMM") ==
      "operators";
  f.dynamic_scaling =
      o.get("fp8_scaling", {"delayed", "dynamic"}, "of conversions to 8 bits") == "dynamic";
  f.norms_in_16_bits = o.get("norms_in_16_bits", false, "norms read and write 16 bits");
  const std::string overlap = o.get("overlap_grad_reduce", {"auto", "true", "false"},
                                    "gradients of ZeRO 0 and 1 are sent in the backward pass");
  if (overlap != "auto") f.overlap_grad_reduce = overlap == "true";
  f.master_weights =
      read_enum(o, "master_weights", f.master_weights, "besides the copy in 16 bits");
  f.fp8_attention =
      o.get("fp8_attention", false, "fused attention computes in 8 bits where GEMMs do (fp8_dpa)");
  f.gemms_in_16_bits =
      texts_in(o, "gemms_in_16_bits", "kinds of modules whose GEMMs stay in 16 bits");
  f.tp_comm_overlap =
      o.get("tp_comm_overlap", false, "sequence parallelism overlaps its collectives with GEMMs");
  f.overlap_expert_dispatch =
      o.get("overlap_expert_dispatch", false,
            "tokens go to experts and back while other micro-batches compute");
  f.account_for_embedding_and_loss =
      o.get("account_for_embedding_and_loss", false,
            "each counts as a layer where layers are assigned to stages");
  f.recompute_modules =
      texts_in(o, "recompute_modules", "moe, or of the generators' option recompute");
  f.recompute_layers =
      o.get("recompute_layers", std::int64_t{0}, "with --recompute full, of each chunk; 0: all");
  f.offload_layers =
      o.get("offload_layers", std::int64_t{0},
            "of each chunk, whose activations are in host memory between the passes");
  f.kernel_launch = o.get("kernel_launch", Duration{}, "on the host; 0: the device's host_op");
  if (const Value* kernels = o.raw("kernels", "the generators' option kernels"))
    f.kernels = mapping_of(*kernels);
  return f;
}

}  // namespace

Framework read_framework(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (colon == text.size()) return read_framework(Value{text, ""});
  Value section;
  section.children.emplace_back("like", Value{text.substr(0, colon), ""});
  for (const std::string& word : split_at_commas(text.substr(colon + 1))) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw InputError(fmt::format("--framework: '{}' is not key=value", word));
    section.children.emplace_back(word.substr(0, equals), Value{word.substr(equals + 1), ""});
  }
  return read_framework(section);
}

Framework read_framework(const Value& section, const std::string& base) {
  const bool named = section.children.empty();
  const Value whole =
      named ? section_of(section.text, base, section.where) : with_like(section, base);
  Options o = options_of(whole, "framework", base);
  Framework framework = framework_of(o);
  o.finish();
  framework.name = named ? fs::path(section.text).stem().string() : "recipe";
  return framework;
}

Bytes workspace_of(const Framework& framework, const DeviceModel& gpu) {
  Bytes bytes;
  for (const auto& [from, size] : framework.workspace)
    if (gpu.compute_capability >= from) bytes = size;
  return bytes;
}

bool reduces_in_fp32(const Framework& framework, std::string_view precision) {
  return framework.grad_reduce_in_fp32 && precision != "fp16" && precision != "amp";
}

DeviceModel launched_by(const Framework& framework, DeviceModel gpu) {
  if (framework.kernel_launch > Duration::zero()) gpu.host_op = framework.kernel_launch;
  return gpu;
}

std::array<Sending, 2> usual_sending(const Framework& framework, const DeviceModel& gpu) {
  std::optional<bool> overlap = framework.overlap_grad_reduce;
  if (!overlap && !gpu.framework.empty())
    overlap = read_framework(gpu.framework).overlap_grad_reduce;
  if (!overlap) return {Sending::beside, Sending::after};
  const Sending both = *overlap ? Sending::beside : Sending::after;
  return {both, both};
}

/// Bytes are over those of the buffer that is reduced. Flat: views are joined (read and written),
/// cast to its format, and divided there (read and written). Gathered weights are copied to single
/// parameters where gradients are.
void add_moves(const Framework& framework, std::string_view precision,
               DataParallelOptions& options) {
  options.broadcasts = framework.broadcast_weights && options.mode == Synchronisation::zero1;
  if (framework.sharded_gradients == ShardedGradients::in_place || !options.sends_each_pass())
    return;
  const double weights = precision == "fp32" ? 4.0 : 2.0;
  const double reduced = reduces_in_fp32(framework, precision) ? 4.0 : weights;
  const double cast = weights + reduced;
  if (framework.sharded_gradients == ShardedGradients::flat) {
    options.before_sum =
        (2.0 * weights + (reduced != weights ? cast : 0.0) + 2.0 * reduced) / reduced;
  } else {
    options.before_sum = cast / reduced;
    if (options.mode == Synchronisation::zero3) options.after_gather = 2.0;
  }
}

Value kernels_of(const Framework& framework, std::string_view precision, bool split_backward,
                 const Value* own) {
  Value kernels = own == nullptr ? Value{} : *own;
  const auto say = [&](const std::string& key, Value value) {
    if (!kernels.text.empty())
      kernels.text += fmt::format("+{}={}", key, value.text);
    else if (find(kernels, key) == nullptr)
      kernels.children.emplace_back(key, std::move(value));
  };
  if (split_backward) say("split_backward", {"true", ""});
  const bool eight = precision == "fp8" || precision == "mxfp8";
  if (framework.quantized_saved_inputs && (eight || precision == "nvfp4"))
    say("saved_inputs", {eight ? "fp8" : "fp4", ""});
  for (const auto& [key, value] : framework.kernels.children) say(key, value);
  return kernels;
}

}  // namespace baechi
