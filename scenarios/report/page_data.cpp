#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "scenarios/report/html.h"
#include "traces/format/json.h"

namespace baechi {
namespace {

using Tree = nlohmann::ordered_json;

std::string dump_text(const Tree& json) {
  return json.dump(-1, ' ', false, Tree::error_handler_t::replace);
}

/// JSON in the page's form: characters beyond ASCII are not escaped.
std::string text_as_page(const std::string& json) {
  return json.find('\\') == std::string::npos ? json : dump_text(Tree::parse(json));
}

/// {KEY: JSON, ...} of many pairs: a Tree would search all keys for each new one. Replaces invalid
/// UTF-8 by U+FFFD.
std::string object_text(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out = "{";
  for (const auto& [key, json] : pairs) {
    if (out.size() > 1) out += ',';
    out += dump_text(Tree(key)) + ':' + json;
  }
  return out + '}';
}

Tree count_or_null(const auto& value) {
  if constexpr (requires { value->count(); })
    return value ? Tree(value->count()) : Tree();
  else
    return value ? Tree(value->count) : Tree();
}

/// The distinct values of an axis, in the order of columns.
std::vector<std::string> axis_values(const ResultTable& table, std::size_t axis) {
  std::vector<std::string> values;
  std::set<std::string_view> seen;
  for (const auto& column : table.columns)
    if (seen.insert(column[axis]).second) values.push_back(column[axis]);
  return values;
}

std::string scales_data(const ResultTable& table) {
  constexpr std::array<const char*, 3> kinds{"linear", "logarithmic", "words"};
  std::vector<std::string> scales;
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    const std::vector<std::string> values = axis_values(table, a);
    const AxisScale scale = axis_scale(values);
    std::vector<std::pair<std::string, std::string>> at;
    for (std::size_t i = 0; scale.kind != AxisScale::Kind::words && i < values.size(); ++i)
      at.emplace_back(values[i], dump_text(Tree(scale.at[i])));
    scales.push_back(fmt::format("{{\"kind\":\"{}\",\"at\":{}}}",
                                 kinds[static_cast<std::size_t>(scale.kind)], object_text(at)));
  }
  return fmt::format("[{}]", fmt::join(scales, ","));
}

/// The points where the profile changes; of very many a uniform selection, and the last.
Tree profiles_data(std::span<const Profile> profiles) {
  constexpr std::size_t most = 300;
  Tree json = Tree::array();
  for (const Profile& profile : profiles) {
    std::vector<std::size_t> steps;
    for (std::size_t i = 0; i < profile.ratios.size(); ++i)
      if (i + 1 == profile.ratios.size() || profile.ratios[i + 1] > profile.ratios[i])
        steps.push_back(i);
    const std::size_t every = 1 + steps.size() / most;
    Tree ratio = Tree::array(), share = Tree::array();
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

/// Bytes by kind, in the page's order; null: not distinguished.
Tree parts_data(const PeakMemory& peak) {
  const auto if_known = [&](Bytes part) { return peak.distinguished ? Tree(part.count) : Tree(); };
  return {peak.weights.count,     if_known(peak.gradients), if_known(peak.optimizer_state),
          peak.activations.count, peak.workspace.count,     peak.copies.count};
}

Tree row_data(const ResultTable::Row& row) {
  Tree value = Tree::array(), peak = Tree::array(), parts = Tree::array(), status = Tree::array();
  for (const RunResult* run : row.cells) {
    value.push_back(run != nullptr ? count_or_null(run->value) : Tree());
    peak.push_back(run != nullptr ? count_or_null(run->peak) : Tree());
    parts.push_back(run != nullptr && run->at_peak ? parts_data(*run->at_peak) : Tree());
    status.push_back(run == nullptr ? -1 : static_cast<int>(run->status));
  }
  return {{"name", row.name},
          {"value", std::move(value)},
          {"peak", std::move(peak)},
          {"parts", std::move(parts)},
          {"status", std::move(status)}};
}

std::string table_data(const ResultTable& table) {
  Tree bounds = Tree::array(), memory = Tree::array(), rows = Tree::array();
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    bounds.push_back(count_or_null(table.bounds[c]));
    memory.push_back(Tree());
    for (const ResultTable::Row& row : table.rows)
      if (row.cells[c] != nullptr) memory.back() = row.cells[c]->memory.count;
  }
  for (const ResultTable::Row& row : table.rows) rows.push_back(row_data(row));
  return fmt::format(
      "{{\"axes\":{},\"figure\":{},\"peaks\":{},\"columns\":{},\"scales\":{},\"bounds\":{},"
      "\"memory\":{},\"rows\":{}}}",
      dump_text(Tree(table.axes)), dump_text(Tree(table.figure())), table.has_peaks(),
      dump_text(Tree(table.columns)), scales_data(table), dump_text(bounds), dump_text(memory),
      dump_text(rows));
}

std::vector<std::string_view> views_of_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

/// The steps of a table's runs, and the names of the ops in them.
class Steps {
 public:
  explicit Steps(const Results& results) : results_(results) {}

  void add(const ResultTable& table) {
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      for (const ResultTable::Row& row : table.rows)
        if (const RunResult* run = row.cells[c]; run != nullptr && !run->picture.empty())
          add(*run, table.graph, row.name, point_label(results_, table, c));
  }

  /// {ID: {...}, ...}
  std::string steps() const { return '{' + steps_ + '}'; }

  /// {GRAPH: {OP: NAME, ...}, ...}
  std::string names() const {
    std::vector<std::pair<std::string, std::string>> graphs;
    for (const Names& names : names_)
      graphs.emplace_back(fmt::to_string(names.graph), object_text(names.ops));
    return object_text(graphs);
  }

 private:
  /// Names of a graph's ops that occur.
  struct Names {
    std::size_t graph;
    std::vector<std::pair<std::string, std::string>> ops{};
    std::vector<bool> known{};  // [ops]
  };

  void add(const RunResult& run, std::size_t graph, const std::string& name,
           const std::string& point) {
    bool grouped = false;
    JsonFile picture("picture", run.picture);
    picture.root().entries([&](std::string_view key, Json value) {
      if (key == "path")
        each_of(value, 6, [&](std::size_t i, std::size_t n) {
          if (i == 2) need_name(graph, n);
        });
      if (key != "devices") return;
      value.list([&](Json device) {
        device.entries([&](std::string_view track, Json slices) {
          if (track != "compute" && track != "send" && track != "receive") return;
          each_of(slices, track == "compute" ? 6 : 5, [&](std::size_t i, std::size_t n) {
            if (i == 2) need_name(run.graph, n);
            grouped |= i == 5 && n != 0;
          });
        });
      });
    });
    picture.finish();
    steps_ += fmt::format(
        "{}\"{}\":{{\"graph\":{},\"title\":{},\"point\":{},\"placer\":{},\"grouped\":{},"
        "\"picture\":{}}}",
        steps_.empty() ? "" : ",", run.id, run.graph,
        dump_text(Tree(fmt::format("{}, {}", name, point))), dump_text(Tree(point)),
        dump_text(Tree(name)), grouped, text_as_page(run.picture));
  }

  /// Calls each(i, number) for every number of a track whose slices have `numbers` numbers; i is
  /// the index within the slice.
  static void each_of(Json& track, std::size_t numbers, auto each) {
    std::size_t i = 0;
    track.list([&](Json number) {
      each(i, static_cast<std::size_t>(number.whole()));
      if (++i == numbers) i = 0;
    });
  }

  void need_name(std::size_t graph, std::size_t number) {
    if (graph != graph_of_lines_) {
      lines_ = views_of_lines(results_.graphs[graph].op_names);
      graph_of_lines_ = graph;
    }
    if (number >= lines_.size()) return;
    auto of = std::ranges::find(names_, graph, &Names::graph);
    if (of == names_.end()) of = names_.insert(of, {.graph = graph});
    if (of->known.size() < lines_.size()) of->known.resize(lines_.size());
    if (of->known[number]) return;
    of->known[number] = true;
    of->ops.emplace_back(fmt::to_string(number), dump_text(Tree(lines_[number])));
  }

  const Results& results_;
  std::string steps_;
  std::vector<Names> names_;
  std::vector<std::string_view> lines_;
  std::size_t graph_of_lines_ = ~std::size_t{0};
};

/// The swept values of all tables, {VALUE: SHORT TEXT, ...}; the last table with a value determines
/// its text.
std::string labels_data(std::span<const ResultTable> tables) {
  std::vector<std::pair<std::string, std::string>> labels;  // in order of first occurrence
  std::map<std::string, std::size_t> known;                 // into labels, by value
  for (const ResultTable& table : tables) {
    for (std::size_t a = 0; a < table.axes.size(); ++a) {
      const std::vector<std::string> values = axis_values(table, a);
      const std::vector<std::string> texts = short_values(values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto [it, fresh] = known.emplace(values[i], labels.size());
        if (fresh) labels.emplace_back(values[i], "");
        labels[it->second].second = dump_text(Tree(texts[i]));
      }
    }
  }
  return object_text(labels);
}

/// The model of a graph whose generator appends the batch: "resnet50" of "resnet50-b32".
std::string model_name(const GraphRecord& graph) {
  const std::string batch = fmt::format("-b{}", graph.batch);
  const std::string_view name = graph.name;
  return std::string(name.ends_with(batch) ? name.substr(0, name.size() - batch.size()) : name);
}

/// The whole steps of runs, as points of a roofline chart.
Tree utilisation_data(const Results& results, const UsedRuns& used) {
  Tree runs = Tree::array();
  for (const auto& [run, label] : used.shown) {
    const Utilisation& u = *run->utilisation;
    if (!u.intensity() || *u.flops <= 0.0) continue;  // no point on logarithmic axes
    const double device_seconds = to_us(*run->value) / 1e6 * static_cast<double>(run->devices);
    const auto at_full = [&](double amount, std::optional<double> share) {
      return share.value_or(0.0) > 0.0 ? Tree(amount / device_seconds / *share) : Tree();
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
  Steps steps(results);
  for (const ResultTable& table : tables) steps.add(table);
  std::vector<std::string> all;
  for (const ResultTable& table : tables) all.push_back(table_data(table));
  std::string text = fmt::format(
      "{{\"tables\":[{}],\"labels\":{},\"steps\":{},\"names\":{},\"profiles\":{{\"step\":{},"
      "\"placing\":{}}},\"utilisation\":{},\"first\":{}}}",
      fmt::join(all, ","), labels_data(tables), steps.steps(), steps.names(),
      dump_text(profiles_data(step_profiles)), dump_text(profiles_data(placing_profiles)),
      dump_text(utilisation_data(results, used)), dump_text(Tree(first_step(tables))));
  // "</script" would end the element, "<!--" change how it is read.
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;)
    text.replace(at, 1, "\\u003c");
  return text;
}

}  // namespace baechi
