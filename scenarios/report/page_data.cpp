#include "scenarios/report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes by kind, in the order in which the page names them; null: not told apart.
Json parts_of(const PeakMemory& peak) {
  const auto if_told = [&](Bytes part) { return peak.told_apart ? Json(part.count) : Json(); };
  return {peak.weights.count,     if_told(peak.gradients), if_told(peak.optimizer_state),
          peak.activations.count, peak.workspace.count,    peak.copies.count};
}

Json table_data(const ResultTable& table) {
  Json bounds = Json::array(), memory = Json::array(), rows = Json::array();
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    bounds.push_back(table.bounds[c] ? Json(table.bounds[c]->count()) : Json());
    Json limit;
    for (const ResultTable::Row& row : table.rows)
      if (row.cells[c] != nullptr) limit = row.cells[c]->memory.count;
    memory.push_back(limit);
  }
  for (const ResultTable::Row& row : table.rows) {
    Json value = Json::array(), peak = Json::array(), parts = Json::array(), status = Json::array();
    for (const RunResult* run : row.cells) {
      value.push_back(run != nullptr && run->value ? Json(run->value->count()) : Json());
      peak.push_back(run != nullptr && run->peak ? Json(run->peak->count) : Json());
      parts.push_back(run != nullptr && run->at_peak ? parts_of(*run->at_peak) : Json());
      status.push_back(run == nullptr ? -1 : static_cast<int>(run->status));
    }
    rows.push_back({{"name", row.name},
                    {"value", value},
                    {"peak", peak},
                    {"parts", parts},
                    {"status", status}});
  }
  return {{"axes", table.axes},
          {"figure", table.figure()},
          {"peaks", table.has_peaks()},
          {"columns", table.columns},
          {"bounds", bounds},
          {"memory", memory},
          {"rows", rows}};
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

/// The steps of a table's runs, and the names of the ops that they show.
class Steps {
 public:
  explicit Steps(const Results& results) : results_(results) {}

  void add(const ResultTable& table) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const std::string point = point_label(results_, table, c);
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || run->picture.empty()) continue;
        const Json picture = Json::parse(run->picture);
        bool grouped = false;
        for (const Json& device : picture.at("devices")) {
          const Json& slices = device.at("compute");
          for (std::size_t i = 5; i < slices.size(); i += 6) grouped |= slices[i] != 0;
          for (std::size_t i = 2; i < slices.size(); i += 6) need_name(run->graph, slices[i]);
          for (const char* track : {"send", "receive"})
            for (std::size_t i = 2; i < device.at(track).size(); i += 5)
              need_name(run->graph, device.at(track)[i]);
        }
        steps[fmt::format("{}", run->id)] = {
            {"graph", run->graph}, {"title", fmt::format("{}, {}", row.name, point)},
            {"point", point},      {"placer", row.name},
            {"grouped", grouped},  {"picture", picture}};
      }
    }
  }

  Json steps = Json::object(), names = Json::object();

 private:
  void need_name(std::size_t graph, const Json& op) {
    if (graph != graph_of_lines_) {
      lines_ = lines_of(results_.graphs[graph].op_names);
      graph_of_lines_ = graph;
    }
    const auto number = op.get<std::size_t>();
    if (number < lines_.size())
      names[fmt::format("{}", graph)][fmt::format("{}", number)] = lines_[number];
  }

  const Results& results_;
  std::vector<std::string_view> lines_;
  std::size_t graph_of_lines_ = ~std::size_t{0};
};

/// Of the last point of the first table that has one: the fastest of those that are drawn.
std::string first_step(std::span<const ResultTable> tables) {
  for (const ResultTable& table : tables) {
    for (std::size_t c = table.columns.size(); c-- > 0;) {
      const RunResult* best = nullptr;
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || run->picture.empty()) continue;
        if (best == nullptr ||
            run->value.value_or(Duration::max()) < best->value.value_or(Duration::max()))
          best = run;
      }
      if (best != nullptr) return fmt::format("{}", best->id);
    }
  }
  return "";
}

}  // namespace

std::string page_data(const Results& results, std::span<const ResultTable> tables) {
  Json drawn = Json::array(), labels = Json::object();
  Steps steps(results);
  for (const ResultTable& table : tables) {
    drawn.push_back(table_data(table));
    steps.add(table);
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      for (std::size_t a = 0; a < table.axes.size(); ++a)
        labels[table.columns[c][a]] = table.shown[c][a];
  }
  const Json data{{"tables", std::move(drawn)},
                  {"labels", std::move(labels)},
                  {"steps", std::move(steps.steps)},
                  {"names", std::move(steps.names)},
                  {"first", first_step(tables)}};
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script" would end the element, "<!--" change how it is read.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace baechi
