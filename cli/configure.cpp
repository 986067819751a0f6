#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "scenarios/studies/serving/profile_file.h"
#include "sim/error.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

using exact::comma_separated;
using exact::most_batch;
using exact::most_threads;
using exact::ServingPlan;
using Profile = exact::LatencyProfile;
using Json = nlohmann::ordered_json;

struct ConfigureArguments {
  std::string file, threads, batch, interference, format;
  std::vector<std::string> where;
};

/// The batches of "32", "8,16,24" or "8..1024": of a range, those of the profiles.
std::vector<std::int64_t> batches_of(const std::string& text, const std::vector<Profile>& all) {
  const auto number = [&](const std::string& word) {
    const auto value = parse_number<std::int64_t>(word);
    if (!value || *value < 1 || *value > most_batch)
      throw InputError(
          fmt::format("--batch: '{}' is not a number from 1 to {}, a list such as "
                      "8,24, or a range such as 8..1024",
                      word, most_batch));
    return *value;
  };
  std::vector<std::int64_t> batches;
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    for (const std::string& word : comma_separated(text)) batches.push_back(number(word));
    return batches;
  }
  const std::int64_t first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
  std::set<std::int64_t> known;
  for (const Profile& profile : all)
    for (const auto& [share, latency] : profile.latency)
      if (share.second >= first && share.second <= last) known.insert(share.second);
  return {known.begin(), known.end()};
}

std::string in_words(const ServingPlan& plan) {
  std::string text;
  for (const ServingPlan::Instances& i : plan.instances)
    text += fmt::format("{}{} x ({} threads, {})", text.empty() ? "" : " + ", i.count, i.threads,
                        i.batch);
  return text;
}

int configure(const ConfigureArguments& arguments) {
  std::vector<Profile> profiles =
      exact::read_latency_profiles(read_file(arguments.file), arguments.file);
  const auto threads = parse_number<std::int64_t>(arguments.threads);
  if (!threads || *threads < 1 || *threads > most_threads)
    throw InputError(fmt::format("--threads: '{}' is not a whole number from 1 to {}",
                                 arguments.threads, most_threads));
  const auto interference = arguments.interference.empty()
                                ? std::optional(1.0)
                                : parse_number<double>(arguments.interference);
  if (!interference || !(*interference >= 1.0 && *interference <= 100.0))
    throw InputError(
        fmt::format("--interference: '{}' is not a factor from 1 to 100", arguments.interference));
  for (const std::string& text : arguments.where) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw InputError(fmt::format("--where: '{}' is not COLUMN=WORD", text));
    const std::pair<std::string, std::string> wanted{text.substr(0, equals),
                                                     text.substr(equals + 1)};
    std::erase_if(profiles,
                  [&](const Profile& p) { return std::ranges::count(p.of, wanted) == 0; });
  }
  if (profiles.empty()) throw InputError(fmt::format("{}: no such profile", arguments.file));

  Json json = Json::array();
  std::string table;
  for (const Profile& profile : profiles) {
    Json one = Json::object();
    std::string name;
    for (const auto& [column, word] : profile.of) {
      one[column] = word;
      name += (name.empty() ? "" : ", ") + word;
    }
    Json rows = Json::array();
    Columns columns({"batch", "one instance", "best", "speed-up", "instances"});
    double sum = 0.0;
    std::size_t count = 0;
    for (const std::int64_t batch : batches_of(arguments.batch, profiles)) {
      const auto best = exact::best_serving(profile.latency, *threads, batch, *interference);
      const auto fat = profile.latency.find({*threads, batch});
      const bool both = best && fat != profile.latency.end();
      const auto ms = [](Duration d) { return to_us(d) / 1e3; };
      const double ratio = both ? ms(fat->second) / ms(best->latency) : 0.0;
      sum += ratio;
      count += both ? 1U : 0U;
      Json instances = Json::array();
      if (best)
        for (const ServingPlan::Instances& i : best->instances)
          instances.push_back({{"count", i.count}, {"threads", i.threads}, {"batch", i.batch}});
      rows.push_back(
          {{"batch", batch},
           {"one_instance_ms", fat != profile.latency.end() ? Json(ms(fat->second)) : Json()},
           {"latency_ms", best ? Json(ms(best->latency)) : Json()},
           {"speed_up", both ? Json(ratio) : Json()},
           {"instances", std::move(instances)}});
      columns.add({fmt::format("{}", batch),
                   fat != profile.latency.end() ? fmt::format("{:.1f} ms", ms(fat->second)) : "-",
                   best ? fmt::format("{:.1f} ms", ms(best->latency)) : "infeasible",
                   both ? fmt::format("{:.2f}", ratio) : "-", best ? in_words(*best) : "-"});
    }
    one["threads"] = *threads;
    one["interference"] = *interference;
    one["mean_speed_up"] = count > 0 ? Json(sum / static_cast<double>(count)) : Json();
    one["configurations"] = std::move(rows);
    json.push_back(std::move(one));
    table += fmt::format("{}{}\n{}", table.empty() ? "" : "\n", bold(name), columns.text());
    if (count > 0) table += fmt::format("mean speed-up {:.2f}\n", sum / static_cast<double>(count));
  }
  if (arguments.format == "json")
    print_json({{"profiles", std::move(json)}});
  else
    print_out(table);
  return 0;
}

}  // namespace

void add_configure(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<ConfigureArguments>();
  CLI::App* verb = app.add_subcommand(
      "configure", "Choose the instances, threads and batches that serve a batch soonest");
  verb->add_option("FILE", arguments->file,
                   "CSV of measured latencies: threads, batch, mean_ms; other columns tell "
                   "profiles apart")
      ->required()
      ->type_name("");
  verb->add_option("--threads", arguments->threads, "Threads of the machine")
      ->required()
      ->type_name("N");
  verb->add_option("--batch", arguments->batch,
                   "Batches to serve: 32, or 8,24, or the profiles' from 8..1024")
      ->required()
      ->type_name("B");
  verb->add_option("--interference", arguments->interference,
                   "Instances that are not alone take F times as long [1]")
      ->type_name("F");
  verb->add_option("--where", arguments->where, "Only profiles with WORD in COLUMN")
      ->type_name("COLUMN=WORD")
      ->take_all()
      ->allow_extra_args(false);
  add_format(*verb, arguments->format, {"text", "json"});
  verb->footer(
      "Examples:\n"
      "  baechi configure --threads 16 --batch 8..1024 packrat_profiles.csv --where engine=graph\n"
      "  baechi configure --threads 14 --batch 8,16 packrat_profiles.csv --interference 1.15");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return configure(*arguments); }; });
}

}  // namespace baechi
