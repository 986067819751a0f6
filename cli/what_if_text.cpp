#include "cli/what_if_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

bool has_step(const WhatIfRow& row) {
  return row.infeasible.empty() && row.refused.empty();
}

/// The change of the step against the base; nothing if one of them has no step.
std::optional<double> change_of(const WhatIfRow& row, const WhatIfRow& base) {
  if (!has_step(row) || !has_step(base) || base.step <= Duration{}) return std::nullopt;
  return to_us(row.step) / to_us(base.step) - 1.0;
}

/// A cell of CSV: in quotes, with every quote doubled, where it has a comma or a quote.
std::string quoted_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string_view verdict_of(const WhatIfRow& row) {
  if (!row.refused.empty()) return "impossible";
  if (!row.infeasible.empty()) return "infeasible";
  return row.fits ? "fits" : "out of memory";
}

/// What it is that `op` does.
PathTime kind_of(const OpGraph& graph, OpId op) {
  if (graph.collective_of(op) != no_collective) return PathTime::collective;
  if (on_host(graph, op)) return PathTime::host;
  return graph.lanes()[index(graph.lane(op))] == "copy" ? PathTime::transfer : PathTime::compute;
}

}  // namespace

PathTimes path_times(const Causes& causes, const OpGraph& graph) {
  PathTimes times{};
  const auto add = [&](PathTime to, Duration time) { times[static_cast<std::size_t>(to)] += time; };
  const OpId last = causes.last_op();
  std::vector<PathPart> open = last == no_op ? std::vector<PathPart>{} : causes.chain(last);
  while (!open.empty()) {
    const PathPart part = open.back();
    open.pop_back();
    switch (part.kind) {
      case PathKind::compute:
      case PathKind::collective:
        add(kind_of(graph, part.op), part.length());
        break;
      case PathKind::transfer:
        add(PathTime::transfer, part.length());
        break;
      case PathKind::wait_channel:
        add(PathTime::waiting, part.length());
        break;
      case PathKind::wait_device: {
        if (part.behind == no_op || part.length() <= Duration{}) {
          add(PathTime::waiting, part.length());
          break;
        }
        for (const PathPart& before : causes.chain(part.behind, part.start)) open.push_back(before);
        add(PathTime::waiting, part.end - causes.end(part.behind));
        break;
      }
    }
  }
  return times;
}

std::string what_if_table(const std::vector<WhatIfRow>& rows) {
  std::vector<std::string> header{"what if", "step", "change", "peak memory", "verdict"};
  for (const std::string_view word : all_words<PathTime>()) header.emplace_back(word);
  Columns columns(header);
  std::string notes;
  for (const WhatIfRow& row : rows) {
    const std::optional<double> change = change_of(row, rows.front());
    std::vector<std::string> cells{row.name};
    if (!has_step(row)) {
      cells.insert(cells.end(), {"", "", "", std::string(verdict_of(row))});
      notes += fmt::format("{}: {}\n", row.name, row.infeasible + row.refused);
    } else {
      cells.push_back(to_text(row.step));
      cells.push_back(&row == &rows.front() || !change ? ""
                                                       : fmt::format("{:+.1f} %", 100.0 * *change));
      cells.push_back(to_text(row.peak));
      cells.emplace_back(verdict_of(row));
      for (const Duration time : row.path)
        cells.push_back(fmt::format(
            "{:.1f} %", row.step > Duration{} ? 100.0 * to_us(time) / to_us(row.step) : 0.0));
      if (!row.fits)
        notes += fmt::format("{}: {} has {}; the step is that of devices without a limit\n",
                             row.name, row.device, to_text(row.limit));
    }
    columns.add(std::move(cells));
  }
  return columns.text() + (notes.empty() ? "" : "\n" + notes);
}

std::string what_if_csv(const std::vector<WhatIfRow>& rows) {
  std::string text = "what_if,step_us,change,peak_bytes,device,limit_bytes,verdict";
  for (const std::string_view word : all_words<PathTime>()) text += fmt::format(",{}_us", word);
  text += '\n';
  for (const WhatIfRow& row : rows) {
    text += quoted_cell(row.name);
    if (!has_step(row)) {
      text += fmt::format(",,,,,,{},,,,,\n", verdict_of(row));
      continue;
    }
    const std::optional<double> change = change_of(row, rows.front());
    text += fmt::format(",{},{},{},{},{},{}", to_us(row.step),
                        change ? fmt::format("{:.6f}", *change) : "", row.peak.count,
                        quoted_cell(row.device), row.limit.count, verdict_of(row));
    for (const Duration time : row.path) text += fmt::format(",{}", to_us(time));
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json what_if_json(const std::vector<WhatIfRow>& rows) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const WhatIfRow& row : rows) {
    Json json{{"name", row.name}, {"verdict", verdict_of(row)}};
    if (!has_step(row)) {
      json["why"] = row.infeasible + row.refused;
    } else {
      const std::optional<double> change = change_of(row, rows.front());
      json["step_time_us"] = to_us(row.step);
      json["change"] = change ? Json(*change) : Json();
      json["peak_bytes"] = row.peak.count;
      json["device"] = row.device;
      json["limit_bytes"] = row.limit.count;
      for (std::size_t i = 0; i < row.path.size(); ++i)
        json["critical_path_us"][std::string(all_words<PathTime>()[i])] = to_us(row.path[i]);
    }
    list.push_back(std::move(json));
  }
  return {{"what_if", std::move(list)}};
}

}  // namespace baechi
