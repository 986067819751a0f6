#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "scenarios/studies/serving/configurations.h"

namespace baechi {
namespace {

using serving::Configuration;
using serving::ProfileConfigurations;
using serving::ServingPlan;
using Json = nlohmann::ordered_json;

struct ConfigureArguments {
  serving::ServingOrder order;
  std::string format;
};

/// "2 x (8 threads, 16) + 1 x (4 threads, 8)": count, threads and batch per instance.
Cell instances_cell(const std::optional<ServingPlan>& plan) {
  Cell cell(Json::array(), "");
  if (!plan) return {Json::array(), "-"};
  for (const ServingPlan::Instances& i : plan->instances) {
    cell.value.push_back({{"count", i.count}, {"threads", i.threads}, {"batch", i.batch}});
    cell.text += fmt::format("{}{} x ({} threads, {})", cell.text.empty() ? "" : " + ", i.count,
                             i.threads, i.batch);
  }
  return cell;
}

Cell ms_cell(const std::optional<Duration>& time, const char* without) {
  if (!time) return {Json(), without};
  return {to_us(*time) / 1e3, fmt::format("{:.1f} ms", to_us(*time) / 1e3)};
}

Report configuration_report(const ProfileConfigurations& profile) {
  Report report({{"batch", "batch"},
                 {"one_instance_ms", "one instance"},
                 {"latency_ms", "best"},
                 {"speed_up", "speed-up"},
                 {"instances", "instances"}});
  for (const Configuration& c : profile.batches) {
    const auto ratio = c.speed_up();
    report.add({c.batch, ms_cell(c.one_instance, "-"),
                ms_cell(c.best ? std::optional(c.best->latency) : std::nullopt, "infeasible"),
                ratio ? Cell(*ratio, fmt::format("{:.2f}", *ratio)) : Cell(Json(), "-"),
                instances_cell(c.best)});
  }
  return report;
}

int configure(const ConfigureArguments& arguments) {
  Json json = Json::array();
  std::string text;
  for (const ProfileConfigurations& profile : serving::configurations(arguments.order)) {
    const Report report = configuration_report(profile);
    const auto mean = profile.mean_speed_up();
    Json one = Json::object();
    std::string name;
    for (const auto& [column, word] : profile.profile.of) {
      one[column] = word;
      name += (name.empty() ? "" : ", ") + word;
    }
    one["threads"] = profile.threads;
    one["interference"] = profile.interference;
    one["mean_speed_up"] = mean ? Json(*mean) : Json();
    one["configurations"] = report.json();
    json.push_back(std::move(one));
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", bold(name), report.table());
    if (mean) text += fmt::format("mean speed-up {:.2f}\n", *mean);
  }
  if (arguments.format == "json")
    print_json({{"profiles", std::move(json)}});
  else
    print_out(text);
  return 0;
}

}  // namespace

void add_configure(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<ConfigureArguments>();
  CLI::App* verb = app.add_subcommand(
      "configure",
      "Choose the instances, threads and batches that serve a batch with the least latency");
  add_argument(
      *verb, "FILE", arguments->order.file,
      "CSV of measured latencies: threads, batch, mean_ms; other columns identify the profile");
  verb->add_option("--threads", arguments->order.threads, "Threads of the machine")
      ->required()
      ->type_name("N");
  verb->add_option("--batch", arguments->order.batch,
                   "Batch sizes: 32, or 8,24, or those of the profiles in 8..1024")
      ->required()
      ->type_name("B");
  verb->add_option("--interference", arguments->order.interference,
                   "Slowdown of an instance that does not run alone [1]")
      ->type_name("F");
  add_repeated(*verb, "--where", arguments->order.where, "COLUMN=WORD",
               "Only profiles with WORD in COLUMN");
  add_format(*verb, arguments->format, {"text", "json"});
  verb->footer(
      "Examples:\n"
      "  baechi study configure --threads 16 --batch 8..1024 packrat_profiles.csv --where "
      "engine=graph\n"
      "  baechi study configure --threads 14 --batch 8,16 packrat_profiles.csv --interference "
      "1.15");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return configure(*arguments); }; });
}

}  // namespace baechi
