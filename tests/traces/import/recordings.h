/// Recordings for the tests of the importer `pytorch`: a hand-written one, and those outside the
/// repository.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/this_build.h"
#include "traces/format/trace_file.h"
#include "traces/import/pytorch/pytorch.h"

namespace baechi::testing {

inline std::filesystem::path recordings() {
  return std::filesystem::path(source_dir()) / "tests" / "recordings";
}

inline Trace imported(const std::filesystem::path& execution, TextFile* kineto = nullptr,
                      pytorch::Settings settings = {}) {
  TextFile calls(execution.string());
  std::vector<TextFile*> times;
  if (kineto != nullptr) times.push_back(kineto);
  return pytorch::import_step(calls, times, settings);
}

/// The same from strings; without times if `kineto` is "".
inline Trace imported_texts(const std::string& execution, const std::string& kineto,
                            pytorch::Settings settings = {}) {
  TextFile calls("m.et.json", execution), times("m.kineto.json", kineto);
  std::vector<TextFile*> given;
  if (!kineto.empty()) given.push_back(&times);
  return pytorch::import_step(calls, given, settings);
}

inline bool noted(const Trace& trace, std::string_view text) {
  for (const std::string& note : trace.notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

/// "from -> to bytes" of each edge.
inline std::set<std::string> edges(const OpGraph& graph) {
  std::set<std::string> all;
  for (const EdgeId e : graph.edges())
    all.insert(fmt::format("{} -> {} {}", graph.name(graph.edge(e).src),
                           graph.name(graph.edge(e).dst),
                           graph.tensor(graph.edge(e).tensor).size.count));
  return all;
}

/// The graph without name, source and batch.
inline std::string graph_text(Trace trace) {
  trace.name = trace.source = "";
  trace.batch = 0;
  return trace_json(trace);
}

/// The events of `MODEL.events.jsonl`, one JSON value per line.
inline std::vector<nlohmann::json> events_of(const std::string& lines) {
  std::vector<nlohmann::json> events;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    events.push_back(nlohmann::json::parse(lines.substr(begin, end - begin)));
    begin = end + 1;
  }
  return events;
}

/// A Kineto trace with the profiler's raw events.
inline std::string kineto_of_events(const std::vector<nlohmann::json>& raw) {
  nlohmann::json events = nlohmann::json::array();
  for (const auto& e : raw) {
    nlohmann::json event{{"name", e["name"]}, {"ts", e["ts"]}, {"pid", 1}, {"tid", e["tid"]}};
    if (e.contains("corr")) {
      event.update({{"ph", "X"},
                    {"cat", "cpu_op"},
                    {"dur", e["dur"]},
                    {"args", {{"Record function id", e["corr"]}}}});
    } else {
      event.update({{"ph", "i"}, {"args", {{"Bytes", e["bytes"]}, {"Device Type", 0}}}});
    }
    events.push_back(std::move(event));
  }
  return nlohmann::json{{"traceEvents", events}}.dump();
}

/// Peak of allocated bytes, minus those at the start of the recording.
inline std::int64_t recorded_peak(const std::vector<nlohmann::json>& raw) {
  std::int64_t live = 0, peak = 0;
  for (const auto& e : raw) {
    if (e.contains("corr")) continue;
    live += e["bytes"].get<std::int64_t>();
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace baechi::testing
