/// Graphs of generated models, and their memory, traffic and flops.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "sim/transform/transform.h"
#include "traces/generator.h"

namespace baechi::testing {

using Settings = std::map<std::string, std::string>;

inline OpGraph generated(const char* generator, const Settings& settings) {
  std::map<std::string, Options::Value> values;
  for (const auto& [key, text] : settings) values[key] = {text, {}, {}};
  return generate_trace(generator, Options(generator, std::move(values))).graph;
}
inline OpGraph gpt(const Settings& settings) {
  return generated("gpt", settings);
}
inline Settings with(Settings settings, const Settings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
  return settings;
}

inline const Settings tiny_gpt{{"layers", "3"},  {"hidden", "64"}, {"heads", "4"},
                               {"length", "32"}, {"batch", "2"},   {"vocabulary", "128"}};
inline const Settings tiny_llama{{"layers", "2"},          {"hidden", "64"}, {"heads", "8"},
                                 {"key_value_heads", "2"}, {"inner", "96"},  {"length", "32"},
                                 {"vocabulary", "128"}};

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
