#include "scenarios/studies/what_if/what_if.h"

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "placers/interface/registry.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/what_if_files.h"
#include "scenarios/results/results.h"

namespace baechi {
namespace {

struct WhatIfArguments {
  std::string source, format;
  std::vector<std::string> rules;
  PlatformFlags cluster;
};

/// A CSV cell, quoted if it has a comma, quote or line break.
std::string quoted_csv_cell(const std::string& text) {
  return text.find_first_of(",\"\n") == std::string::npos ? text : doubled_quotes(text);
}

std::string what_if_table(const std::vector<WhatIfRow>& rows) {
  std::vector<std::string> header{"what if",   "step",        "change",
                                  "samples/s", "peak memory", "verdict"};
  for (const std::string_view word : all_words<PathTime>()) header.emplace_back(word);
  Columns columns(header);
  std::string notes;
  for (const WhatIfRow& row : rows) {
    const std::optional<double> change = row.change_from(rows.front());
    std::vector<std::string> cells{row.name};
    if (!row.has_step()) {
      cells.insert(cells.end(), {"", "", "", "", std::string(row.verdict())});
      notes += fmt::format("{}: {}\n", row.name, row.why());
    } else {
      cells.push_back(to_text(row.step));
      cells.push_back(&row == &rows.front() || !change ? ""
                                                       : fmt::format("{:+.1f} %", 100.0 * *change));
      cells.push_back(fmt::format("{:.1f}", row.samples_per_second()));
      cells.push_back(to_text(row.peak));
      cells.emplace_back(row.verdict());
      for (const Duration time : row.path)
        cells.push_back(fmt::format(
            "{:.1f} %", row.step > Duration{} ? 100.0 * to_us(time) / to_us(row.step) : 0.0));
      if (!row.fits)
        notes += fmt::format("{}: {} has {}; the step is simulated without memory limits\n",
                             row.name, row.device, to_text(row.limit));
    }
    columns.add(std::move(cells));
  }
  return columns.text() + (notes.empty() ? "" : "\n" + notes);
}

std::string what_if_csv(const std::vector<WhatIfRow>& rows) {
  std::string text = "what_if,step_us,change,peak_bytes,device,limit_bytes,verdict";
  for (const std::string_view word : all_words<PathTime>()) text += fmt::format(",{}_us", word);
  text += ",samples\n";
  for (const WhatIfRow& row : rows) {
    text += quoted_csv_cell(row.name);
    if (!row.has_step()) {
      text += fmt::format(",,,,,,{},,,,,,\n", row.verdict());
      continue;
    }
    const std::optional<double> change = row.change_from(rows.front());
    text += fmt::format(",{},{},{},{},{},{}", to_us(row.step),
                        change ? fmt::format("{:.6f}", *change) : "", row.peak.count,
                        quoted_csv_cell(row.device), row.limit.count, row.verdict());
    for (const Duration time : row.path) text += fmt::format(",{}", to_us(time));
    text += fmt::format(",{}\n", row.samples);
  }
  return text;
}

nlohmann::ordered_json what_if_json(const std::vector<WhatIfRow>& rows) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const WhatIfRow& row : rows) {
    Json json{{"name", row.name}, {"verdict", row.verdict()}};
    if (!row.has_step()) {
      json["why"] = row.why();
    } else {
      const std::optional<double> change = row.change_from(rows.front());
      json["step_time_us"] = to_us(row.step);
      json["change"] = change ? Json(*change) : Json();
      json["samples"] = row.samples;
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

/// The scenario of the file; or of the trace, on the cluster of the flags.
ScenarioFile scenario_of(const WhatIfArguments& arguments) {
  if (!names_cluster(arguments.cluster) && arguments.cluster.scenario.empty())
    return load_scenario(with_data_folder(arguments.source), arguments.cluster.sets);
  Platform platform = read_platform(arguments.cluster);
  fmt::print(stderr, "{}", platform.note);
  return scenario_on(std::move(platform), arguments.source);
}

int what_if(const WhatIfArguments& arguments) {
  const ScenarioFile file = scenario_of(arguments);
  const Scenario point = file.point(0);
  if (file.num_points() > 1)
    fmt::print(stderr, "the first of {} points of {}\n", file.num_points(), arguments.source);
  if (point.engine.semantics != Semantics::event)
    throw InputError("what-if needs engine semantics 'event'");
  const std::vector<WhatIfQuestion> questions = what_if_questions(point, arguments.rules);
  const auto trace = std::make_shared<const Trace>(load_graph(point.graph));
  require_times(*trace, point.cluster, point.graph.text);
  std::optional<Stage> stage;
  const std::vector<WhatIfRow> rows =
      what_if_rows(questions, trace, point, [&](const std::string& name) { stage.emplace(name); });
  stage.reset();
  if (arguments.format == "json")
    print_json(what_if_json(rows));
  else
    print_out(arguments.format == "csv" ? what_if_csv(rows) : what_if_table(rows));
  return 0;
}

}  // namespace

void add_what_if(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] =
      add_verb(app, chosen, "what-if",
               "Predict step time, memory and critical path after rules rewrite the step", what_if);
  add_argument(*verb, "SCENARIO", arguments->source,
               "Scenario file or name of an example; the first point of a sweep. Or a graph file, "
               "which auto places on the cluster of the flags below");
  add_value(*verb, "RULES", arguments->rules, "NAME[:k=v,...]",
            "Files of rules, or entries of the catalogue with their parameters")
      ->required();
  add_format(*verb, arguments->format, {"text", "json", "csv"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->get_option("--set")->remove_needs(verb->get_option("--scenario"));
  verb->footer(
      "The table has a row for the unchanged scenario, for each of RULES, and for all of them in\n"
      "the given order: step time, change, peak memory of the fullest device and whether it\n"
      "fits, and the critical path by kind.\n"
      "Catalogue: " +
      fmt::format("{}", fmt::join(catalogue_of_rules(), ", ")) +
      "\nExamples:\n"
      "  baechi what-if training_gpt2.yaml amp fused_optimizer\n"
      "  baechi what-if trace.json amp --devices 4 --kind v100\n"
      "  baechi what-if scenario.yaml my_rules.yaml data_parallel:replicas=16 --format csv");
}

}  // namespace baechi
