#include "scenarios/report/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "scenarios/results/axis_scale.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// The values of an axis, each once, in the order of columns.
std::vector<std::string> axis_values(const ResultTable& table, std::size_t axis) {
  std::vector<std::string> values;
  std::set<std::string_view> seen;
  for (const auto& column : table.columns)
    if (seen.insert(column[axis]).second) values.push_back(column[axis]);
  return values;
}

Json scales_data(const ResultTable& table) {
  constexpr std::array<const char*, 3> kinds{"linear", "logarithmic", "words"};
  Json scales = Json::array();
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    const std::vector<std::string> values = axis_values(table, a);
    const AxisScale scale = axis_scale(values);
    Json at = Json::object();
    if (scale.kind != AxisScale::Kind::words)
      for (std::size_t i = 0; i < values.size(); ++i) at[values[i]] = scale.at[i];
    scales.push_back(
        {{"kind", kinds[static_cast<std::size_t>(scale.kind)]}, {"at", std::move(at)}});
  }
  return scales;
}

/// Where shares change; of very many such ratios some, evenly chosen, and the last.
Json profiles_data(std::span<const Profile> profiles) {
  constexpr std::size_t most = 300;
  Json json = Json::array();
  for (const Profile& profile : profiles) {
    std::vector<std::size_t> steps;
    for (std::size_t i = 0; i < profile.ratios.size(); ++i)
      if (i + 1 == profile.ratios.size() || profile.ratios[i + 1] > profile.ratios[i])
        steps.push_back(i);
    const std::size_t every = 1 + steps.size() / most;
    Json ratio = Json::array(), share = Json::array();
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (k % every != 0 && k + 1 != steps.size()) continue;
      ratio.push_back(profile.ratios[steps[k]]);
      share.push_back(profile.share(steps[k]));
    }
    json.push_back(
        {{"name", profile.placer}, {"look", profile.number}, {"ratio", ratio}, {"share", share}});
  }
  return json;
}

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
                    {"value", std::move(value)},
                    {"peak", std::move(peak)},
                    {"parts", std::move(parts)},
                    {"status", std::move(status)}});
  }
  return {{"axes", table.axes},           {"figure", table.figure()},
          {"peaks", table.has_peaks()},   {"columns", table.columns},
          {"scales", scales_data(table)}, {"bounds", std::move(bounds)},
          {"memory", std::move(memory)},  {"rows", std::move(rows)}};
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
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || run->picture.empty()) continue;
        const std::string point = point_label(results_, table, c);
        Json picture = Json::parse(run->picture);
        bool grouped = false;
        if (const auto path = picture.find("path"); path != picture.end())
          for (std::size_t i = 2; i < path->size(); i += 6) need_name(table.graph, (*path)[i]);
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
            {"grouped", grouped},  {"picture", std::move(picture)}};
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

/// The model of a graph that generators name with its batch: "resnet50" of "resnet50-b32".
std::string model_name(const GraphRecord& graph) {
  const std::string batch = fmt::format("-b{}", graph.batch);
  const std::string_view name = graph.name;
  return std::string(name.ends_with(batch) ? name.substr(0, name.size() - batch.size()) : name);
}

/// The whole steps of runs, as points under rooflines.
Json utilisation_data(const Results& results, const UsedRuns& used) {
  Json runs = Json::array();
  for (const auto& [run, label] : used.shown) {
    const Utilisation& u = *run->utilisation;
    if (!u.intensity() || *u.flops <= 0.0) continue;  // no point on logarithmic axes
    const double device_seconds = to_us(*run->value) / 1e6 * static_cast<double>(run->devices);
    const auto at_full = [&](double amount, std::optional<double> share) {
      return share.value_or(0.0) > 0.0 ? Json(amount / device_seconds / *share) : Json();
    };
    runs.push_back({{"id", run->id},
                    {"name", label},
                    {"graph", model_name(results.graphs[run->graph])},
                    {"devices", run->devices},
                    {"ns", run->value->count()},
                    {"flops", *u.flops},
                    {"traffic", *u.traffic},
                    {"peak", at_full(*u.flops, u.flops_of_step)},
                    {"bandwidth", at_full(*u.traffic, u.traffic_of_step)}});
  }
  return runs;
}

/// The fastest drawn step of the last point of the first table that has one.
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

std::string page_data(const Results& results, std::span<const ResultTable> tables,
                      const UsedRuns& used, std::span<const Profile> step_profiles,
                      std::span<const Profile> placing_profiles) {
  Json drawn = Json::array(), labels = Json::object();
  Steps steps(results);
  for (const ResultTable& table : tables) {
    drawn.push_back(table_data(table));
    steps.add(table);
    for (std::size_t a = 0; a < table.axes.size(); ++a) {
      const std::vector<std::string> values = axis_values(table, a);
      const std::vector<std::string> texts = short_values(values);
      for (std::size_t i = 0; i < values.size(); ++i) labels[values[i]] = texts[i];
    }
  }
  const Json data{
      {"tables", std::move(drawn)},
      {"labels", std::move(labels)},
      {"steps", std::move(steps.steps)},
      {"names", std::move(steps.names)},
      {"profiles",
       {{"step", profiles_data(step_profiles)}, {"placing", profiles_data(placing_profiles)}}},
      {"utilisation", utilisation_data(results, used)},
      {"first", first_step(tables)}};
  std::string text = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  // "</script" would end the element, "<!--" change how it is read.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace baechi
