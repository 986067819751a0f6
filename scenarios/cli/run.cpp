#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "scenarios/cli/interrupt.h"
#include "scenarios/cli/output.h"
#include "scenarios/cli/progress.h"
#include "scenarios/cli/verbs.h"
#include "scenarios/run/load.h"
#include "scenarios/run/runner.h"
#include "scenarios/run/steps.h"
#include "scenarios/run/tables.h"
#include "sim/error.h"

namespace baechi {
namespace {

struct RunFlags {
  std::vector<std::string> scenarios, sets;
  std::string out, shard, timelines, format = "table";
  std::size_t threads = 0;
  bool resume = false, quiet = false;
};

/// "2/8".
void read_shard(const std::string& text, RunSettings& settings) {
  const char* last = text.data() + text.size();
  const auto [slash, ec] = std::from_chars(text.data(), last, settings.shard);
  if (ec == std::errc{} && slash != last && *slash == '/') {
    const auto [end, ec2] = std::from_chars(slash + 1, last, settings.shards);
    if (ec2 == std::errc{} && end == last && settings.shard >= 1 &&
        settings.shard <= settings.shards)
      return;
  }
  throw InputError(fmt::format("--shard: '{}' is not I/N, such as 1/4 ... 4/4", text));
}

std::size_t terminal_width() {
  const char* columns = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): read only
  std::size_t width = 100;
  if (columns != nullptr)
    std::from_chars(columns, columns + std::char_traits<char>::length(columns), width);
  return std::max<std::size_t>(width, 40);
}

/// The rows that `folder` has of this very plan; nothing if it has none.
std::optional<Results> known_results(const std::string& folder, const Plan& plan) {
  if (!std::filesystem::exists(folder + "/results.sqlite")) return std::nullopt;
  Results known = read_results(folder);
  if (known.hash != plan.header.hash)
    throw InputError(
        fmt::format("--resume: {} holds the results of another scenario or version; "
                    "choose another --out, or run without --resume",
                    folder));
  return known;
}

Timelines timelines_by_name(std::string_view name) {
  return name == "all" ? Timelines::all : name == "best" ? Timelines::best : Timelines::none;
}

void print_results(const Results& results, const RunFlags& flags) {
  if (flags.format == "csv") return print_out(to_csv(results));
  if (flags.format == "json") return print_out(to_json(results));
  if (!flags.quiet) print_out(to_text_tables(results, coloured(), terminal_width()));
}

int run_scenarios(const RunFlags& flags) {
  RunSettings settings;
  settings.threads =
      flags.threads != 0 ? flags.threads : std::max(1U, std::thread::hardware_concurrency());
  if (!flags.shard.empty()) read_shard(flags.shard, settings);

  const Interrupt interrupt;
  Mistakes mistakes;
  std::vector<ScenarioFile> files;
  files.reserve(flags.scenarios.size());
  for (const std::string& path : flags.scenarios)
    files.push_back(load_scenario(path, flags.sets, mistakes));
  if (!flags.timelines.empty()) {
    for (ScenarioFile& file : files) file.report.timelines = timelines_by_name(flags.timelines);
  }
  const Plan plan = make_plan(std::move(files), settings.threads, mistakes);
  mistakes.throw_if_any();

  for (const auto& problem : plan.problems)
    if (!problem->warning.empty()) fmt::print(stderr, "warning: {}", problem->warning);

  const std::string folder =
      !flags.out.empty() ? flags.out : "results/" + plan.header.scenarios.front().name;
  const std::optional<Results> known = flags.resume ? known_results(folder, plan) : std::nullopt;
  const std::vector<std::size_t> ids = remaining_runs(plan, known ? &*known : nullptr, settings);
  std::atomic<std::size_t> done{0};
  settings.done = &done;
  settings.stop = &interrupt.wanted();
  Results results = [&] {
    const Progress progress(done, ids.size(), flags.quiet);
    return run(plan, ids, known ? &*known : nullptr, settings);
  }();
  const std::size_t timelines =
      look_at_steps(results, plan, folder, settings.threads, settings.stop);
  write_results(folder, results);
  print_results(results, flags);

  if (!flags.quiet)
    fmt::print(stderr, "{0}/report.html  {0}/results.csv  {0}/results.sqlite{1}\n", folder,
               timelines > 0 ? fmt::format("  {}/*.trace.json.gz ({})", folder, timelines) : "");
  if (done < ids.size()) {
    fmt::print(stderr,
               "interrupted: {} of {} runs are done and kept; --resume goes on from there\n",
               results.rows.size(), plan.runs.size());
    return 130;
  }
  std::size_t failed = 0;
  for (const RunResult& row : results.rows) {
    if (row.status == Status::error && ++failed == 1)
      fmt::print(stderr, "error in run {} ({}): {}\n", row.id, row.placer, row.detail);
  }
  if (failed > 0)
    fmt::print(stderr, "{} of {} runs ended in an error\n", failed, results.rows.size());
  return failed > 0 ? 1 : 0;
}

}  // namespace

void add_run(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("run", "Run scenarios: every placer on every point of their sweeps");
  const auto flags = std::make_shared<RunFlags>();
  verb->add_option("SCENARIO", flags->scenarios, "Scenario files")->required()->type_name("");
  verb->add_option("--out", flags->out,
                   "Folder of the results [results/NAME of the first scenario]")
      ->type_name("DIR");
  verb->add_option("-j", flags->threads, "Threads [one per core]")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--set", flags->sets,
                   "Put VALUE at the dotted KEY of every scenario; a swept KEY is swept no longer")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_flag("--resume", flags->resume, "Keep the runs that DIR has, run the others");
  verb->add_option("--shard", flags->shard, "Of N machines this is the I-th: every N-th run")
      ->type_name("I/N");
  verb->add_option("--format", flags->format, "What is printed: table, csv or json [table]")
      ->type_name("F")
      ->check(CLI::IsMember({"table", "csv", "json"}));
  verb->add_option(
          "--timelines", flags->timelines,
          "Write DIR/ID.PLACER.trace.json.gz for ui.perfetto.dev: none, best (each point's "
          "fastest run) or all [the scenario's report block; none]")
      ->type_name("W")
      ->check(CLI::IsMember({"none", "best", "all"}));
  verb->add_flag("--quiet", flags->quiet, "No progress, no table");
  verb->footer(
      "Results: DIR/results.csv, DIR/results.sqlite and DIR/report.html, the same for any -j.\n"
      "Ctrl-C keeps what is done. Examples: scenarios/examples/*.yaml");
  verb->callback([flags, &chosen] { chosen = [flags] { return run_scenarios(*flags); }; });
}

}  // namespace baechi
