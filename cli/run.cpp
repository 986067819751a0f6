#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "scenarios/read/paths.h"
#include "scenarios/results/overview.h"
#include "scenarios/run/ranks.h"
#include "scenarios/run/resumable_run.h"

namespace baechi {
namespace {

struct Shard {
  std::size_t number = 1, of = 1;
};

struct RunFlags {
  std::vector<std::string> scenarios, sets;
  std::string out, shard, timelines, format = "table";
  std::size_t threads = 0;
  bool resume = false, quiet = false;
};

/// Parses "2/8"; "" is shard 1 of 1. Throws InputError on other text.
Shard read_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto number = parse_number<std::size_t>(text.substr(0, slash)),
             of = parse_number<std::size_t>(text.substr(std::min(slash + 1, text.size())));
  if (number && of && *number >= 1 && *number <= *of) return {*number, *of};
  throw InputError(fmt::format("--shard: '{}' is not I/N, such as 1/4 ... 4/4", text));
}

void print_results(const ResultsHeader& header, const EachRow& rows, const RunFlags& flags) {
  if (flags.format == "csv") return print_csv(header, rows, print_out);
  if (flags.format == "json") return print_json(header, rows, print_out);
  if (flags.quiet) return;
  Overview overview(header);
  rows([&](const RunResult& row) { overview.add(row); });
  print_out(to_text_tables(overview, coloured(), terminal_width()));
}

Sweep read_sweep(const RunFlags& flags, std::size_t threads) {
  Mistakes mistakes;
  std::vector<std::string> paths = flags.scenarios;
  for (std::string& path : paths) path = with_data_folder(path);
  std::vector<ScenarioFile> files = load_scenarios(paths, flags.sets, mistakes);
  if (!flags.timelines.empty()) {
    for (ScenarioFile& file : files)
      file.report.timelines = *parse<Timelines>(flags.timelines);  // checked by the flag
  }
  Sweep sweep = make_sweep(std::move(files), threads, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

/// Reads the sweep and checks that all ranks have the same one. If not, throws InputError on the
/// ranks that report the mistake and returns nullopt on the others.
std::optional<Sweep> agreed_sweep(const RunFlags& flags, std::size_t threads, const Ranks& ranks) {
  std::optional<Sweep> sweep;
  std::string mistakes;
  try {
    sweep = read_sweep(flags, threads);
  } catch (const InputError& e) {
    mistakes = e.what();
  }
  std::uint64_t hash = 0;
  if (sweep) hash = std::stoull(sweep->header().hash, nullptr, 16);
  const int other = ranks.disagreeing(hash);
  if (other >= 0 && ranks.rank() == other)
    throw InputError(
        sweep ? fmt::format(
                    "rank {} plans other runs than rank 0: do all machines have the same files?",
                    other)
              : fmt::format("rank {}: {}", other, mistakes));
  if (!sweep && ranks.rank() == 0) throw InputError(mistakes);
  if (other >= 0) return std::nullopt;
  return sweep;
}

int report_outcome(const ResumableRun::Outcome& outcome, const std::string& folder,
                   const RunFlags& flags) {
  if (!flags.quiet)
    fmt::print(stderr, "{0}/report.html  {0}/results.csv  {0}/results.sqlite{1}\n", folder,
               outcome.timelines > 0
                   ? fmt::format("  {}/*.trace.json.gz ({})", folder, outcome.timelines)
                   : "");
  if (outcome.failed == 0) return 0;
  fmt::print(stderr, "error in {}\n{} of {} runs ended in an error\n", outcome.first_failure,
             outcome.failed, outcome.rows);
  return 1;
}

int run_sweep(const Sweep& sweep, const RunFlags& flags, const Ranks& ranks, RunSettings settings) {
  const Shard shard = read_shard(flags.shard);
  const std::string folder =
      !flags.out.empty() ? flags.out : "results/" + sweep.header().scenarios.front().name;
  const std::vector<std::size_t> own_runs = shard_runs(sweep, shard.number, shard.of);
  // On --resume, waits up to 10 s for the ranks of a killed job to end.
  ResumableRun run(folder, sweep, own_runs, flags.resume,
                   flags.resume ? std::chrono::seconds(10) : std::chrono::seconds(0));
  const std::vector<std::size_t> ids = run.remaining();
  std::atomic<std::size_t> done{0};
  settings.done = &done;
  {
    const Progress progress(done, ids.size(), flags.quiet);
    if (ranks.size() > 1)
      ranks.deal(sweep, ids, settings, run.journal());
    else
      run.run(ids, settings);
  }
  const ResumableRun::Outcome outcome =
      run.finish(settings, shard.of > 1 ? fmt::format("{}/{}", shard.number, shard.of) : "");
  print_results(sweep.header(), run.rows(), flags);
  const int code = report_outcome(outcome, folder, flags);
  if (done == ids.size()) return code;
  fmt::print(stderr, "interrupted: {} of {} runs are done; --resume runs the others\n",
             outcome.rows, own_runs.size());
  return 130;
}

int run_scenarios(const RunFlags& flags) {
  const Interrupt interrupt("finishing the runs that have begun");
  const Ranks ranks;
  const std::size_t threads = flags.threads != 0 ? flags.threads : ranks.cores();
  const std::optional<Sweep> sweep = agreed_sweep(flags, threads, ranks);
  if (!sweep) return 0;
  try {
    if (ranks.rank() == 0)
      for (const std::string& warning : sweep->warnings())
        fmt::print(stderr, "warning: {}", warning);
    if (ranks.rank() == 0)
      return run_sweep(*sweep, flags, ranks, {.threads = threads, .stop = &interrupt.wanted()});
    ranks.work(*sweep, threads);
    return 0;
  } catch (const std::exception& e) {
    if (ranks.size() == 1) throw;
    // Otherwise the other ranks would wait for this rank forever.
    fmt::print(stderr, "{}\n", e.what());
    ranks.abort(dynamic_cast<const InputError*>(&e) != nullptr ? 2 : 1);
  }
}

}  // namespace

void add_run(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] = add_verb(
      app, chosen, "run", "Run scenarios: each placer at each point of the sweeps", run_scenarios);
  add_argument(*verb, "SCENARIO", flags->scenarios, "Scenario files, or names of examples");
  add_value(*verb, "--out", flags->out, "DIR",
            "Folder of the results [results/NAME of the first scenario]");
  add_number(*verb, "-j", flags->threads, 1, 1024, "Threads [one per core]");
  add_repeated(*verb, "--set", flags->sets, "KEY=VALUE",
               "Set the dotted KEY of every scenario to VALUE, also if it is swept");
  verb->add_flag("--resume", flags->resume,
                 "Keep the runs that DIR already has, and run the others");
  add_value(*verb, "--shard", flags->shard, "I/N",
            "Run only part I of N; 'baechi merge' merges the folders of all parts");
  add_value(*verb, "--format", flags->format, "F",
            "Format of the printed results: table, csv or json [table]")
      ->check(CLI::IsMember({"table", "csv", "json"}));
  add_value(*verb, "--timelines", flags->timelines, "W",
            "Write DIR/ID.PLACER.trace.json.gz for ui.perfetto.dev: none, best (each "
            "point's fastest run) or all [the scenario's report block; none]")
      ->check(one_of<Timelines>());
  verb->add_flag("--quiet", flags->quiet, "Print neither progress nor table");
  verb->footer(
      "Results: DIR/results.csv, DIR/results.sqlite and DIR/report.html, equal for every -j.\n"
      "Ctrl-C or a kill loses no finished run: --resume runs the others.\n"
      "Examples: scenarios/examples/*.yaml");
}

}  // namespace baechi
