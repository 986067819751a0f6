#include "traces/generate/inference.h"

#include <cmath>

#include "traces/generate/expand.h"

namespace baechi::generate {
namespace {

constexpr std::string_view layer_prefix = "layer_";

WeightPlace place_of(std::string_view variable, const Inference& s) {
  WeightPlace place{
      .tensor = {}, .layers = s.layers, .shared_keys = s.shared_keys, .experts = s.experts};
  const std::string_view path = variable.substr(0, variable.rfind('/'));
  place.tensor = path.substr(path.rfind('/') + 1);
  if (s.tied && place.tensor == "embed_tokens") place.tensor = "lm_head";
  if (path.starts_with(layer_prefix))
    place.layer = parse_number<std::int64_t>(
                      path.substr(layer_prefix.size(), path.find('/') - layer_prefix.size()))
                      .value_or(-1);
  return place;
}

/// Tokens that tokens of a pass see, summed over the tokens of a sequence.
std::int64_t seen(const Inference& s, std::int64_t window) {
  const std::int64_t c = s.context, u = s.tokens;
  const std::int64_t whole = window == 0 ? u : std::clamp<std::int64_t>(window - c, 0, u);
  return whole * c + whole * (whole + 1) / 2 + (u - whole) * window;
}

}  // namespace

Bytes Inference::stored(const Variable& v) const {
  const WeightPlace place = place_of(v.name, *this);
  const bool outside = place.tensor == "embed_tokens" || place.tensor == "lm_head";
  const bool whole =
      v.name.find("/router/") != std::string::npos || place.tensor == "embed_positions";
  const std::int64_t n = elements(v.shape);
  if (!weights) return {n * number};
  if (v.shape.size() == 1 || whole) return {n * (weights->gguf() ? word.count : number)};
  if (outside && !weights->gguf()) return {n * number};
  const std::int64_t columns =
      v.name.starts_with("embed_tokens") ? v.shape.back() : v.shape[v.shape.size() - 2];
  const std::string layer = place.layer < 0 ? "" : fmt::format("layer_{}/", place.layer);
  auto own = by_tensor.find(layer + std::string(place.tensor));
  if (own == by_tensor.end() && v.name.find("/expert") != std::string::npos)
    own = by_tensor.find("experts");
  return own == by_tensor.end() ? weights->of(place, n / columns, columns)
                                : own->second->of(n / columns, columns);
}

OpWork Inference::kernel(const Model& model, const Layer& layer) const {
  OpWork work = layer.forward;
  Bytes words = work.traffic - work.weights, fixed = layer.cache_traffic, read;
  const bool looks_up = layer.kind == LayerKind::embedding;
  if (looks_up || layer.kind == LayerKind::position_embedding) {  // a row for each token
    if (looks_up) {
      words = model.value(layer.outputs[0]).size();
      fixed = model.value(layer.inputs[0]).size();
    }
    const Variable& table = model.variable(layer.variables[0]);
    const std::int64_t rows = elements(model.value(layer.outputs[0]).shape) / table.shape[1];
    read = stored({.name = table.name, .shape = {rows, table.shape[1]}});
  } else {
    for (const VariableId v : layer.variables) read += stored(model.variable(v));
    read = {read.count / layer.groups * layer.groups_read};
  }
  work.weights = read;
  work.traffic = activations(words) + fixed + read;
  work.precision = dtype;
  return work;
}

std::int64_t Inference::experts_read(std::int64_t experts, std::int64_t top_k) const {
  const std::int64_t rows = batch * tokens;
  if (!decode()) return std::min(experts, rows * top_k);
  const auto all = static_cast<double>(experts);
  const double missed = std::pow(1.0 - static_cast<double>(top_k) / all, static_cast<double>(rows));
  return std::max<std::int64_t>(1, std::llround(all * (1.0 - missed)));
}

Pass read_pass(Options& o) {
  return read_enum(o, "pass", Pass::train,
                   "prefill reads a prompt, decode writes the next token; both have also the "
                   "options tokens, context, cache, cache_dtype, logits, dtype and weights");
}

void read_inference(Options& o, Config& c, Inference& s) {
  if (!s.on()) return;
  constexpr std::int64_t most = 10'000'000;
  s.tokens =
      o.get("tokens", std::int64_t{s.decode() ? 1 : 512},
            "of each sequence, that the pass computes; 1 with decode, 512 with prefill", 1, most);
  s.context = o.get("context", std::int64_t{0}, "tokens of each sequence in the cache", 0, most);
  s.allocated = o.get("cache", s.context + s.tokens,
                      "tokens of each sequence that the cache has room for", 1, 2 * most);
  if (s.allocated < s.context + s.tokens)
    o.mistake("cache", fmt::format("has no room for {} tokens", s.context + s.tokens));
  const auto words = [](const std::string& first, std::vector<std::string> all) {
    if (const auto found = std::ranges::find(all, first); found != all.end()) all.erase(found);
    all.insert(all.begin(), first);
    return all;
  };
  const std::string published = c.text("torch_dtype", "float16");
  const std::string dtype = o.get("dtype",
                                  words(published == "bfloat16"  ? "bf16"
                                        : published == "float32" ? "fp32"
                                                                 : "fp16",
                                        {"fp16", "bf16", "fp32"}),
                                  "of activations, and of weights without a format");
  s.dtype = *parse<Precision>(dtype);
  s.number = s.dtype == Precision::fp32 ? 4 : 2;
  s.cache =
      find_number_format(o.get("cache_dtype", words(dtype, {"fp16", "bf16", "fp8", "q8_0", "q4_0"}),
                               "of keys and values in the cache"));
  s.all_logits = o.get("logits", std::vector<std::string>{"last", "all"},
                       "of each sequence's last token, or of all") == "all";
  const std::string weights =
      o.get("weights", c.text("weights", "").c_str(),
            "format of the weights: a GGUF type such as q8_0, a mixture such as q4_k_m, or int8, "
            "fp8, gptq, awq, nf4, nf4_double, which leave embedding and head as activations are; "
            "types of single tensors, or of experts, behind it, as in q4_k+layer_0/v_proj=q6_k");
  const std::string base = weights.substr(0, weights.find('+'));
  if (!base.empty() && !(s.weights = find_weight_format(base)))
    o.mistake("weights", fmt::format("'{}' is none of {}", base, weight_format_names()));
  if (base.size() == weights.size()) return;
  for (const auto& [tensor, type] : entries_of({weights.substr(base.size() + 1), "", {}}))
    if (!(s.by_tensor[tensor] = find_number_format(type.text)))
      o.mistake("weights", fmt::format("{}: '{}' is no GGUF type", tensor, type.text));
}

ValueId cached_attention(Model& model, std::string_view name, std::vector<ValueId> inputs,
                         const CachedAttention& o, const Inference& s) {
  Layer l{.kind = o.fused ? LayerKind::fused_attention : LayerKind::attention,
          .name = model.scoped(name),
          .inputs = std::move(inputs)};
  const Shape in = model.value(l.inputs[0]).shape;
  const std::int64_t all = s.context + s.tokens, heads = s.batch * o.heads;
  const std::int64_t read = o.window == 0 ? all : std::min(o.window + s.tokens - 1, all);
  const std::int64_t held =
      o.window == 0 ? s.allocated : std::min(o.window + s.tokens, s.allocated);
  l.multiply_adds = heads * (o.score_size + o.value_size) * seen(s, o.window);
  l.cache = s.cache->of(s.batch * held, o.token);
  l.cache_traffic = s.cache->of(s.batch * (read + s.tokens), o.token);
  if (!o.fused) {
    // Scores of 32 bits for all that the cache has room for, and a prompt's in 16 bits; products
    // write and read them, and the softmax does.
    const std::int64_t scores = heads * s.tokens * s.allocated;
    l.workspace = {scores * (s.decode() ? 4 : 4 + 2)};
    if (!s.decode()) l.cache_traffic += Bytes{heads * s.tokens * read * 4 * 4};
  }
  const Shape out{in[0], in[1], o.heads * o.value_size};
  l.forward = {.flops = 2 * l.multiply_adds,
               .traffic = bytes_of(heads * s.tokens * (o.score_size + o.value_size)),
               .matrix = {.kind = MatrixKind::attention,
                          .rows = s.tokens,
                          .columns = (o.score_size + o.value_size) / 2,
                          .inner = read}};
  const ValueId y = model.output(l, out);
  model.add(std::move(l));
  return y;
}

ValueId product_by_head(Model& model, std::string_view name, ValueId x, const Shape& weights,
                        std::int64_t heads, std::int64_t from, std::int64_t to) {
  Layer l = model.layer(LayerKind::dense, name, {{x}});
  const Value in = model.value(x);
  const std::int64_t rows = elements(in.shape) / in.shape.back();
  const auto scope = model.scope(name);
  l.variables = {model.variable("weights", weights, Initializer::truncated_normal)};
  l.multiplies({.count = heads, .rows = rows, .columns = to, .inner = from}, in.size(),
               model.variable(l.variables[0]).size(), bytes_of(rows * heads * to));
  const ValueId y = model.output(l, {in.shape[0], in.shape[1], heads * to});
  model.add(std::move(l));
  return y;
}

}  // namespace baechi::generate
