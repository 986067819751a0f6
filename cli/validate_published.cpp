#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "scenarios/read/data_folder.h"
#include "sim/error.h"
#include "sim/file_aside.h"
#include "sim/find_entry.h"
#include "validate/fit/fit.h"
#include "validate/published/published.h"

namespace baechi {

using namespace validate;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The folder of the measurements: `given`, else the program's own. Throws InputError if it is
/// none.
std::string measurements_folder(const std::string& given) {
  const std::string folder = given.empty() ? data_folder() + "/validate/published/data" : given;
  if (fs::is_directory(folder)) return folder;
  throw InputError(folder + ": no such folder; --data FOLDER says where the measurements are");
}

struct PublishedFlags {
  std::vector<std::string> blocks;
  std::string data, out, format;
};

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

/// The rows that were skipped, by their reasons, each with its place: the first of each reason.
std::string skipped_text(const Leftovers& left) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const Leftovers::Row& row : left.skipped) {
    const std::size_t end = row.why.find(": ");
    const std::string why = end == std::string::npos ? row.why : row.why.substr(end + 2);
    auto found = std::ranges::find(reasons, why, &decltype(reasons)::value_type::first);
    if (found == reasons.end()) found = reasons.insert(found, {why, {}});
    found->second.push_back(row.why.substr(0, end));
  }
  constexpr std::size_t most_reasons = 10, most_places = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most_reasons, reasons.size()); ++i) {
    const auto& [why, places] = reasons[i];
    text += fmt::format(
        "  skipped: {}: {}{}\n", why,
        fmt::join(std::span(places).first(std::min(most_places, places.size())), ", "),
        places.size() > most_places ? fmt::format(" and {} more", places.size() - most_places)
                                    : "");
  }
  if (reasons.size() > most_reasons)
    text += fmt::format("  and {} more reasons: --format json\n", reasons.size() - most_reasons);
  return text;
}

/// Trainings that ran, and are said not to fit: how many, and the first.
std::string refused_text(std::span<const PublishedRow> rows) {
  const auto first = std::ranges::find_if(rows, &PublishedRow::refused);
  if (first == rows.end()) return "";
  return fmt::format("  ran, and are said not to fit: {}, the first: {}\n",
                     std::ranges::count_if(rows, &PublishedRow::refused), first->what);
}

std::string scores_text(const ScoreBoard& board) {
  Columns columns(
      {"block", "rows", "skipped", "mean", "median", "by size", "baseline", "worst", "worst row"});
  const auto maybe = [](bool known, double share) { return known ? percent(share) : "-"; };
  for (const PublishedScore& s : board.scores) {
    columns.add({std::string(s.block->name), fmt::to_string(s.errors.rows),
                 fmt::to_string(s.left.skipped.size()), maybe(!s.rows.empty(), s.errors.mean),
                 maybe(!s.rows.empty(), s.errors.median),
                 maybe(s.errors.log_mean.has_value(), s.errors.log_mean.value_or(0.0)),
                 maybe(s.baseline.rows > 0, s.baseline.mean),
                 fmt::format("{:+.1f} %", 100.0 * s.errors.worst),
                 s.rows.empty() ? "" : s.rows[s.worst].what});
    for (const auto& [name, errors] : s.groups)
      columns.add({"  " + name, fmt::to_string(errors.rows), "", percent(errors.mean),
                   percent(errors.median),
                   maybe(errors.log_mean.has_value(), errors.log_mean.value_or(0.0))});
  }
  std::string text = columns.text();
  for (const PublishedScore& s : board.scores) {
    text += fmt::format("\n{}: {}\n  fitted to: {}\n", s.block->name, s.block->summary, s.fitted);
    if (s.baseline.rows > 0)
      text += fmt::format("  baseline: {}: mean {}, median {}\n", s.block->baseline,
                          percent(s.baseline.mean), percent(s.baseline.median));
    if (!s.block->published.empty()) text += fmt::format("  published: {}\n", s.block->published);
    text += refused_text(s.rows) + skipped_text(s.left);
  }
  for (const Unasked& file : board.unasked)
    text += fmt::format("\nin no block: {} rows of {}", file.rows, file.file);
  return text + (board.unasked.empty() ? "" : "\n");
}

Json to_json(const PublishedErrors& errors) {
  Json json{{"rows", errors.rows},
            {"mean", errors.mean},
            {"median", errors.median},
            {"bias", errors.bias}};
  if (errors.log_mean) json["log_mean"] = *errors.log_mean;
  return json;
}

Json to_json(const ScoreBoard& board) {
  Json blocks = Json::array();
  for (const PublishedScore& score : board.scores) {
    Json block{{"name", score.block->name}};
    block.update(to_json(score.errors));
    block["skipped"] = score.left.skipped.size();
    block["worst"] = nullptr;
    if (!score.rows.empty()) {
      const PublishedRow& worst = score.rows[score.worst];
      block["worst"] = {{"row", worst.what},
                        {"measured", worst.measured},
                        {"simulated", worst.simulated},
                        {"error", worst.error()}};
    }
    block["baseline"] = nullptr;
    if (score.baseline.rows > 0) {
      block["baseline"] = score.baseline.mean;
      block["baseline_is"] = score.block->baseline;
    }
    Json groups = Json::array();
    for (const auto& [name, errors] : score.groups) {
      Json group{{"name", name}};
      group.update(to_json(errors));
      groups.push_back(std::move(group));
    }
    block["groups"] = std::move(groups);
    block["fitted"] = score.fitted;
    block["published"] = score.block->published;
    Json refused = Json::array();
    for (const PublishedRow& row : score.rows)
      if (row.refused) refused.push_back(row.what);
    block["refused"] = std::move(refused);
    Json skipped = Json::array();
    for (const Leftovers::Row& row : score.left.skipped) skipped.push_back(row.why);
    block["skipped_rows"] = std::move(skipped);
    blocks.push_back(std::move(block));
  }
  Json unasked = Json::array();
  for (const Unasked& file : board.unasked)
    unasked.push_back({{"file", file.file}, {"rows", file.rows}});
  return {{"blocks", std::move(blocks)}, {"in_no_block", std::move(unasked)}};
}

int published(const PublishedFlags& flags) {
  const ScoreBoard board =
      score_published(measurements_folder(flags.data), flags.blocks, stages("scoring blocks"));
  if (!flags.out.empty()) {
    fs::create_directories(flags.out);
    write_aside(flags.out + "/blocks.csv", blocks_csv(board.scores));
    write_aside(flags.out + "/rows.csv", rows_csv(board.scores));
    write_aside(flags.out + "/published.md", to_markdown(board.scores));
    write_aside(flags.out + "/published.html", to_html(board));
  }
  if (flags.format == "json")
    print_json(to_json(board));
  else
    print_out(flags.format == "markdown" ? to_markdown(board.scores) : scores_text(board));
  return 0;
}

struct FitFlags {
  std::string what, data, out;
};

int fit(const FitFlags& flags) {
  const FitEntry& entry = find_entry(fits(), "fit", flags.what);
  std::optional<Stage> stage("fitting " + flags.what);
  const std::string yaml = entry.fit(measurements_folder(flags.data),
                                     [&](const std::atomic<std::size_t>& done, std::size_t total) {
                                       stage.reset();
                                       return stages("fitting " + flags.what)(done, total);
                                     });
  stage.reset();
  if (flags.out.empty())
    print_out(yaml);
  else
    write_aside(flags.out, yaml);
  return 0;
}

void add_data(CLI::App& verb, std::string& data) {
  verb.add_option("--data", data,
                  "Folder with vtrain/, dlexamples/, papers/, measured/ [validate/published/data]")
      ->type_name("FOLDER");
}

}  // namespace

void add_validate_published(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "published", "Score simulated times against measurements that others published");
  const auto flags = std::make_shared<PublishedFlags>();
  verb->add_option("BLOCK", flags->blocks, "Which blocks [all whose files are there]")
      ->type_name("");
  add_data(*verb, flags->data);
  verb->add_option("--out", flags->out,
                   "Write DIR/blocks.csv, rows.csv, published.md and published.html, a page")
      ->type_name("DIR");
  add_format(*verb, flags->format, {"text", "json", "markdown"});
  verb->callback([flags, &chosen] { chosen = [flags] { return published(*flags); }; });
}

void add_validate_fit(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("fit", "Fit the numbers of a model to published measurements, as YAML");
  const auto flags = std::make_shared<FitFlags>();
  std::string known;
  for (const FitEntry& entry : fits())
    known += fmt::format("{}{}: {} (of {})", known.empty() ? "" : "; ", entry.name, entry.summary,
                         entry.data);
  add_argument(*verb, "WHAT,--what", flags->what, known);
  add_data(*verb, flags->data);
  verb->add_option("-o", flags->out, "The file to write [standard output]")->type_name("FILE");
  verb->callback([flags, &chosen] { chosen = [flags] { return fit(*flags); }; });
}

}  // namespace baechi
