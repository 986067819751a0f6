#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/output.h"
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

/// The folder of the measurements: `given`; else $BAECHI_SHARED/data; else ../shared/data beside
/// the checkout. Throws InputError if it is none.
std::string measurements_folder(const std::string& given) {
  std::string folder = given;
  if (folder.empty()) {
    const char* shared = std::getenv("BAECHI_SHARED");  // NOLINT(concurrency-mt-unsafe): read only
    folder =
        (shared != nullptr ? fs::path(shared) : fs::path(data_folder()) / "../shared") / "data";
  }
  if (fs::is_directory(folder)) return folder;
  throw InputError(fmt::format(
      "{}: no such folder; --data FOLDER or BAECHI_SHARED says where the measurements are",
      folder));
}

struct PublishedFlags {
  std::vector<std::string> blocks;
  std::string data, out, format;
};

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100.0 * share);
}

std::string scores_text(std::span<const PublishedScore> scores) {
  Columns columns({"block", "rows", "mean", "median", "worst", "worst row"});
  for (const PublishedScore& score : scores) {
    const PublishedRow& worst = score.rows[score.worst];
    columns.add({std::string(score.block->name), fmt::to_string(score.errors.rows),
                 percent(score.errors.mape), percent(score.errors.median),
                 fmt::format("{:+.1f} %", 100.0 * worst.error()), worst.what});
    for (const auto& [name, errors] : score.groups)
      columns.add(
          {"  " + name, fmt::to_string(errors.rows), percent(errors.mape), percent(errors.median)});
  }
  std::string text = columns.text();
  for (const PublishedScore& score : scores) {
    text += fmt::format("\n{}: {}; fitted to: {}\n", score.block->name, score.block->summary,
                        score.block->fitted);
    if (!score.block->published.empty())
      text += fmt::format("  published: {}\n", score.block->published);
  }
  return text;
}

Json to_json(const PublishedErrors& errors) {
  return {{"rows", errors.rows},
          {"mape", errors.mape},
          {"median", errors.median},
          {"bias", errors.bias}};
}

Json to_json(std::span<const PublishedScore> scores) {
  Json blocks = Json::array();
  for (const PublishedScore& score : scores) {
    Json block{{"name", score.block->name}};
    block.update(to_json(score.errors));
    const PublishedRow& worst = score.rows[score.worst];
    block["worst"] = {{"row", worst.what},
                      {"measured", worst.measured},
                      {"simulated", worst.simulated},
                      {"error", worst.error()}};
    Json groups = Json::array();
    for (const auto& [name, errors] : score.groups) {
      Json group{{"name", name}};
      group.update(to_json(errors));
      groups.push_back(std::move(group));
    }
    block["groups"] = std::move(groups);
    block["fitted"] = score.block->fitted;
    block["published"] = score.block->published;
    blocks.push_back(std::move(block));
  }
  return {{"blocks", std::move(blocks)}};
}

int published(const PublishedFlags& flags) {
  const std::vector<PublishedScore> scores =
      score_published(measurements_folder(flags.data), flags.blocks);
  if (!flags.out.empty()) {
    fs::create_directories(flags.out);
    write_aside(flags.out + "/blocks.csv", blocks_csv(scores));
    write_aside(flags.out + "/rows.csv", rows_csv(scores));
    write_aside(flags.out + "/published.md", to_markdown(scores));
  }
  if (flags.format == "json")
    print_json(to_json(scores));
  else
    print_out(flags.format == "markdown" ? to_markdown(scores) : scores_text(scores));
  return 0;
}

struct FitFlags {
  std::string what, data, out;
};

int fit(const FitFlags& flags) {
  const FitEntry& entry = find_entry(fits(), "fit", flags.what);
  const std::string yaml = entry.fit(measurements_folder(flags.data));
  if (flags.out.empty())
    print_out(yaml);
  else
    write_aside(flags.out, yaml);
  return 0;
}

void add_data(CLI::App& verb, std::string& data) {
  verb.add_option("--data", data,
                  "Folder with vtrain/, dlexamples/, papers/ [$BAECHI_SHARED/data, else "
                  "../shared/data beside the checkout]")
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
  verb->add_option("--out", flags->out, "Write DIR/blocks.csv, rows.csv and published.md")
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
  verb->add_option("WHAT,--what", flags->what, known)->required()->type_name("");
  add_data(*verb, flags->data);
  verb->add_option("-o", flags->out, "The file to write [standard output]")->type_name("FILE");
  verb->callback([flags, &chosen] { chosen = [flags] { return fit(*flags); }; });
}

}  // namespace baechi
