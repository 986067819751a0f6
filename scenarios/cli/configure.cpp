#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "placers/exact/packrat.h"
#include "scenarios/cli/arguments.h"
#include "scenarios/cli/output.h"
#include "scenarios/cli/verbs.h"
#include "sim/error.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

using exact::LatencyTable;
using exact::ServingPlan;
using Json = nlohmann::ordered_json;

constexpr std::int64_t most_threads = 1024, most_batch = 65'536;

/// The latencies of one model, engine and so on: of equal words in all other columns.
struct Profile {
  std::vector<std::pair<std::string, std::string>> of;  ///< column and word
  LatencyTable latency;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',')
      cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  }
  return cells;
}

/// A CSV with columns threads, batch and mean_ms; other columns tell profiles apart.
class ProfileReader {
 public:
  explicit ProfileReader(std::string path) : path_(std::move(path)) {}

  std::vector<Profile> read() {
    std::istringstream lines(read_file(path_));
    std::string line;
    std::getline(lines, line);
    header_ = cells_of(line);
    for (const char* name : {"threads", "batch", "mean_ms"})
      if (std::ranges::count(header_, name) != 1)
        mistakes_.add(
            fmt::format("{}:1:1: '{}' has no column '{}', once", path_, line.substr(0, 60), name));
    mistakes_.throw_if_any();
    for (number_ = 2; std::getline(lines, line); ++number_)
      if (!line.empty()) add(cells_of(line));
    mistakes_.throw_if_any();
    std::vector<Profile> all;
    for (auto& [words, profile] : profiles_) all.push_back(std::move(profile));
    return all;
  }

 private:
  void add(const std::vector<std::string>& cells) {
    const auto mistake = [&](std::size_t column, std::string_view what) {
      if (mistakes_.size() < 20)
        mistakes_.add(fmt::format("{}:{}:{}: {}", path_, number_, column, what));
    };
    if (cells.size() != header_.size())
      return mistake(1,
                     fmt::format("{} cells, the first line has {}", cells.size(), header_.size()));
    Profile row;
    std::vector<std::string> words;
    std::int64_t threads = 0, batch = 0;
    Duration latency{};
    std::size_t column = 1;
    for (std::size_t i = 0; i < cells.size(); ++i, column += cells[i - 1].size() + 1) {
      const std::string& name = header_[i];
      if (name == "threads" || name == "batch") {
        const std::int64_t most = name == "batch" ? most_batch : most_threads;
        const auto value = parse_number<std::int64_t>(cells[i]);
        if (!value || *value < 1 || *value > most)
          return mistake(column, fmt::format("{}: '{}' is not a whole number from 1 to {}", name,
                                             cells[i], most));
        (name == "batch" ? batch : threads) = *value;
      } else if (name == "mean_ms") {
        const auto value = parse_number<double>(cells[i]);
        const auto time = value && *value > 0.0 ? from_us(*value * 1e3) : std::nullopt;
        if (!time)
          return mistake(column, fmt::format("{}: '{}' is not a time above 0", name, cells[i]));
        latency = *time;
      } else {
        row.of.emplace_back(name, cells[i]);
        words.push_back(cells[i]);
      }
    }
    Profile& profile = profiles_.try_emplace(words, row).first->second;
    if (!profile.latency.emplace(std::pair(threads, batch), latency).second)
      mistake(1, fmt::format("{} threads and batch {} are there twice", threads, batch));
  }

  std::string path_;
  std::vector<std::string> header_;
  std::size_t number_ = 0;
  std::map<std::vector<std::string>, Profile> profiles_;
  Mistakes mistakes_;
};

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
    for (const std::string& word : cells_of(text)) batches.push_back(number(word));
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
  std::vector<Profile> profiles = ProfileReader(arguments.file).read();
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
