/// Graphs of generated models, and their memory, traffic and flops.
#pragma once
#include <doctest/doctest.h>

#include "sim/transform/transform.h"
#include "traces/generator.h"

namespace baechi::testing {

using Settings = std::map<std::string, std::string>;

/// "kernels.eager" is the key `eager` of the option `kernels`. Settings are of gpt, or of llama:
/// moe has width for experts, and llama the rarer shapes in its configuration.
inline Options options_of(std::string_view generator, const Settings& settings) {
  Options options{std::string(generator)};
  std::map<std::string, Options::Value> maps;
  for (const auto& [setting, text] : settings) {
    std::string key = setting;
    if (generator == "hybrid" && key == "num_hidden_layers") key = "hybrid_override_pattern";
    if (generator == "moe" && key == "intermediate_size") key = "moe_intermediate_size";
    if ((generator == "llama" &&
         (key == "kv_lora_rank" || key == "q_lora_rank" || key == "sliding_window")) ||
        (generator != "transformer" && generator != "gpt" && key == "bias"))
      key = "config." + (key == "bias" ? "attention_bias" : key);
    if (generator == "gpt" && key == "bias") key = "config.bias";
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos)
      options.set(key, {text, {}, {}});
    else
      maps[key.substr(0, dot)].children.emplace_back(key.substr(dot + 1),
                                                     Options::Value{text, {}, {}});
  }
  for (auto& [key, map] : maps) options.set(key, std::move(map));
  return options;
}
inline OpGraph generated(const char* generator, const Settings& settings) {
  return generate_trace(generator, options_of(generator, settings)).graph;
}
inline OpGraph gpt(const Settings& settings) { return generated("gpt", settings); }
inline Settings with(Settings settings, const Settings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
  return settings;
}

inline const Settings tiny_gpt{
    {"num_hidden_layers", "3"}, {"hidden_size", "64"}, {"num_attention_heads", "4"},
    {"length", "32"},           {"batch", "2"},        {"vocab_size", "128"}};
inline const Settings tiny_llama{{"num_hidden_layers", "2"},   {"hidden_size", "64"},
                                 {"num_attention_heads", "8"}, {"num_key_value_heads", "2"},
                                 {"intermediate_size", "96"},  {"length", "32"},
                                 {"vocab_size", "128"}};

/// Bytes that the kernels of an op move.
inline std::int64_t traffic(const OpGraph& graph, const char* op) {
  std::int64_t sum = 0;
  for (const OpWork& kernel : graph.kernels(*graph.find(op))) sum += kernel.traffic.count;
  return sum;
}

/// Ops of a kind.
inline std::size_t count(const OpGraph& g, std::string_view kind) {
  std::size_t n = 0;
  for (const OpId v : g.ops()) n += g.kind(v) == kind ? 1U : 0U;
  return n;
}

/// Number of collectives of a kind in a phase. Checks that all have `bytes`.
inline std::size_t count(const OpGraph& graph, CollectiveKind kind, Phase phase, Bytes bytes) {
  std::size_t found = 0;
  for (const Collective& c : graph.collectives()) {
    if (c.kind != kind || graph.op(c.first).phase != phase) continue;
    CHECK(c.bytes == bytes);
    ++found;
  }
  return found;
}

/// Bytes that kernels of a phase move.
inline std::int64_t moved(const OpGraph& graph, Phase phase) {
  std::int64_t bytes = 0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == phase) bytes += graph.work(v).traffic.count;
  return bytes;
}

/// Bytes that backward ops read of layers' forward ops.
inline std::int64_t kept(const OpGraph& graph, std::string_view layers) {
  std::int64_t bytes = 0;
  for (const TensorId t : graph.tensors()) {
    const OpId v = graph.tensor(t).producer;
    if (graph.op(v).phase != Phase::forward || !graph.name(v).starts_with(layers)) continue;
    for (const EdgeId e : graph.readers(t))
      if (graph.op(graph.edge(e).dst).phase == Phase::backward) {
        bytes += graph.tensor(t).held().count;
        break;
      }
  }
  return bytes;
}

inline std::int64_t flops(const OpGraph& graph, Phase phase) {
  std::int64_t sum = 0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == phase)
      for (const OpWork& kernel : graph.kernels(v)) sum += kernel.flops;
  return sum;
}

/// Weights of the forward ops, in numbers of 4 bytes.
inline std::int64_t forward_parameters(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == Phase::forward) bytes += graph.op(v).persistent.count;
  return bytes / 4;
}

}  // namespace baechi::testing
