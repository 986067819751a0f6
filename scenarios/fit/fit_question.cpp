#include <tuple>

#include "scenarios/fit/fit.h"
#include "scenarios/read/choice_text.h"

namespace baechi {
namespace {

/// A kind of link of the device table, with its evidence.
Link named_link(const std::string& name, const char* flag, std::vector<Evidence>& evidence) {
  const auto& links = built_in_devices().links;
  const auto found = links.find(name);
  if (found == links.end())
    throw InputError(fmt::format("{}: {}", flag, not_one_of(name, keys_of(links))));
  const std::string& fitted = found->second.fitted;
  evidence.push_back({"link " + name, fitted.empty() ? "unfitted" : fitted});
  return found->second.link;
}

Bytes size_of(const std::string& text, const char* flag) {
  const auto size = parse_bytes(text);
  if (!size) throw InputError(fmt::format("{}: '{}' is not a size such as 64GB", flag, text));
  return *size;
}

/// The command that says which ways there are, without what only changes its output.
std::string asking_command(const FitWords& a) {
  std::string text = "baechi fit " + in_shell(a.model);
  const FitWords unsaid;
  for (const auto& [flag, value, other] :
       {std::tuple("--gpus", a.gpus, unsaid.gpus),
        {"--memory", a.memory, unsaid.memory},
        {"--cpu-memory", a.cpu_memory, unsaid.cpu_memory},
        {"--cpu", a.cpu, unsaid.cpu},
        {"--disk", a.disk, unsaid.disk},
        {"--dtype", a.dtype, unsaid.dtype},
        {"--reserve", a.reserve, unsaid.reserve},
        {"--link", a.link, unsaid.link},
        {"--host-link", a.host_link, unsaid.host_link},
        {"--context", std::to_string(a.context), std::string("0")},
        {"--batch", std::to_string(a.batch), std::string("0")}})
    if (value != other) text += fmt::format(" {} {}", flag, in_shell(value));
  return text;
}

/// The tokens of a sample to train with: those of MODEL's own option, `asked`, or at most 2048.
void set_sample_length(FitQuestion& q, std::int64_t asked) {
  if (q.model.trace) return;
  Options peeked = q.model.options;  // raw() declares what a generator may have to refuse
  if (asked > 0 && q.model.text.find("length=") != std::string::npos)
    throw InputError("--context: MODEL has a length; give one of the two");
  if (const Options::Value* weights = peeked.raw("weights", ""))
    throw InputError(fmt::format(
        "--train: weights in {} are not trained; name the model without them (LoRA and QLoRA, "
        "whose weights have 4 bits, are among the ways)",
        weights->text));
  const Options::Value* own = peeked.raw("length", "");
  q.context = asked > 0        ? asked
              : own != nullptr ? parse_number<std::int64_t>(own->text).value_or(0)
              : q.model.writes ? std::min<std::int64_t>(q.context, 2048)
                               : 0;
  if (asked > 0 || (own == nullptr && q.context > 0))
    q.model.options.set("length", {std::to_string(q.context), "--context", {}});
}

}  // namespace

FitQuestion question_of(const FitWords& a) {
  Mistakes mistakes;
  FitQuestion q;
  if (a.gpus.empty()) mistakes.add("--gpus is missing, such as '--gpus 2xrtx_4090,1xrtx_3060'");
  q.gpus = read_device_words({.devices = a.gpus, .memory = a.memory, .prefix = "--"}, mistakes);
  for (const DeviceChoice& gpu : q.gpus)
    if (gpu.model == nullptr && mistakes.empty())
      mistakes.add("--gpus: fit needs device types, such as 2xrtx_4090");
  mistakes.attempt([&] { q.reserve = size_of(a.reserve, "--reserve"); });
  mistakes.attempt([&] {
    if (!a.cpu_memory.empty()) q.host = size_of(a.cpu_memory, "--cpu-memory");
  });
  q.disk = read_disk(a.disk, mistakes);
  if (q.disk && q.host == Bytes{}) mistakes.add(disk_needs_host);
  if (!a.train && a.lora_rank > 0) mistakes.add("--lora-rank needs --train");
  if (a.train && q.disk) mistakes.add("--disk: in training no weights wait on a disk");
  mistakes.attempt([&] { q.between = named_link(a.link, "--link", q.links); });
  q.link = a.link;
  mistakes.attempt([&] { q.to_host = named_link(a.host_link, "--host-link", q.links); });
  mistakes.attempt([&] { q.host_kind = device_of({a.cpu, "", {}}, "--cpu")->name; });
  mistakes.attempt([&] { q.model = read_fit_model(a.model, a.dtype); });
  mistakes.throw_if_any();
  q.command = asking_command(a);
  const std::int64_t trained = q.model.trained_context;
  q.context = a.context > 0 ? a.context
              : trained > 0 ? std::min<std::int64_t>(trained, 8192)
                            : 8192;
  q.batch = a.batch;
  if (q.batch == 0 && a.train)
    for (const DeviceChoice& gpu : q.gpus) q.batch += static_cast<std::int64_t>(gpu.count);
  q.batch = std::max<std::int64_t>(q.batch, 1);
  q.train = a.train;
  q.prompt = a.prompt;
  if (a.lora_rank > 0) q.lora_rank = a.lora_rank;
  if (a.train) set_sample_length(q, a.context);
  return q;
}

}  // namespace baechi
