#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "sim/file_aside.h"
#include "validate/calibrate.h"
#include "validate/score.h"

namespace baechi {

using namespace validate;

namespace {

/// The arguments of a verb that a program in Python 3 of the program's data folder runs, which asks
/// `baechi query`.
struct PythonFlags {
  std::string script;                         // in validate/
  std::map<std::string, std::string> values;  // of the flags; "": not given
  std::vector<std::string> words;             // without a flag
};

int run_python(const PythonFlags& flags) {
  const std::string path = data_folder() + "/validate/" + flags.script;
  std::vector<std::string> words{"python3", path, "--program",
                                 std::filesystem::read_symlink("/proc/self/exe").string()};
  for (const auto& [flag, value] : flags.values)
    if (!value.empty()) words.insert(words.end(), {flag, value});
  words.emplace_back("--");
  words.insert(words.end(), flags.words.begin(), flags.words.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers.front(), pointers.data());
  throw InputError(fmt::format("python3: {}; {} is a program in Python 3",
                               std::generic_category().message(errno), path));
}

void add_data(CLI::App& verb, std::string& data) {
  verb.add_option("--data", data,
                  "Folder with vtrain/, dlexamples/, papers/, measured/ [validate/published/data]")
      ->type_name("FOLDER");
}

namespace fs = std::filesystem;

struct PlanFlags {
  std::vector<std::string> scenarios, sets;
  std::string out, mode = "graph", bodies = "spin", calibration;
  ExportChoice choice;  ///< without mode, bodies and calibration
};

int write_plans(const PlanFlags& flags) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files = load_scenarios(flags.scenarios, flags.sets, mistakes);
  const Sweep sweep = make_sweep(std::move(files), flags.choice.threads, mistakes);
  mistakes.throw_if_any();
  ExportChoice choice = flags.choice;
  choice.mode = *parse<SubmitMode>(flags.mode);  // checked by the flag
  choice.bodies = *parse<Bodies>(flags.bodies);
  if (!flags.calibration.empty()) choice.calibration = read_calibration(flags.calibration);
  const Exported exported = export_plans(sweep, choice, flags.out, stages("placing"));
  for (const std::string& remark : exported.remarks) fmt::print(stderr, "{}\n", remark);
  for (const std::string& line : exported.worth.lines()) fmt::print(stderr, "{}\n", line);
  fmt::print(
      stderr,
      "{}/plans: {} plans of {} runs, {:.1f} MB; the steps of one pass over them take {:.2f} s\n",
      flags.out, exported.plans, sweep.num_runs(), static_cast<double>(exported.bytes) / 1e6,
      std::chrono::duration<double>(exported.steps).count());
  return 0;
}

void add_replay_plans(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] = add_verb(
      app, chosen, "plan", "Write the placed step of each run of scenarios as a plan", write_plans);
  add_argument(*verb, "SCENARIO", flags->scenarios, "Scenario files");
  add_value(*verb, "-o", flags->out, "DIR", "Folder of the run; replaces DIR/plans/*")->required();
  add_value(*verb, "--mode", flags->mode, "M", "How work is submitted: graph or stream [graph]")
      ->check(one_of<SubmitMode>());
  add_value(*verb, "--bodies", flags->bodies, "B",
            "What an op becomes: spin (keeps the device busy for exactly the op's time), "
            "work (matrix products and passes over memory, as much work as the op's), or "
            "timed (the same, sized by the calibration to take the op's time) [spin]")
      ->check(one_of<Bodies>());
  add_value(*verb, "--calibration", flags->calibration, "FILE",
            "Predict with this calibration [without overheads]");
  add_number(*verb, "--neighbours", flags->choice.neighbours, 0, 1000,
             "Also N plans of each graph: its placement predicted best, with one op moved [0]");
  add_number(*verb, "--random", flags->choice.at_random, 0, 1000,
             "Also N random placements of each graph [0]");
  add_number(*verb, "--distinct", flags->choice.least.distinct, 0, 1000,
             "Refuse a graph with fewer than N different placements [0]");
  add_number(*verb, "--least-busy", flags->choice.least.busy, 0.0, 1.0,
             "Refuse a graph of which fewer than half of the placements keep two devices busy "
             "for this share of the step [0]",
             "F");
  add_number(*verb, "--overheads", flags->choice.least.overheads, 0.0, 1000.0,
             "Refuse a graph on which a model without overheads is predicted to be off by "
             "less than N times the layer's target, in the median: its plans could not tell "
             "a model from none; 5 is a fair test [0]");
  add_repeated(*verb, "--set", flags->sets, "KEY=VALUE",
               "Set the dotted KEY of every scenario to VALUE");
  add_number(*verb, "-j", flags->choice.threads, 1, 1024, "Threads [1]");
}

struct CalibrateFlags {
  std::string run, out;
  bool accept = false;
};

/// Prints each fit. Throws InputError if one makes no sense, unless it is accepted.
void check_fits(const Calibration& calibration, const std::string& run, bool accept) {
  Columns columns({"fitted", "", "error", ""});
  Mistakes mistakes;
  for (const Fit& fit : fits_of(calibration)) {
    columns.add({fit.what, fit.value, fit.error, red(fit.wrong)});
    if (!fit.wrong.empty() && !accept)
      mistakes.add(fmt::format("{}/measurements.csv: {}: {}: {} (--accept takes it)", run, fit.what,
                               fit.value, fit.wrong));
  }
  print_out(columns.text());
  mistakes.throw_if_any();
}

int calibrate_run(const CalibrateFlags& flags) {
  const ValidationRun run = read_run(flags.run);
  Mistakes mistakes;
  if (!run.machine) mistakes.add(fmt::format("{}: no machine.txt", flags.run));
  if (run.measurements.empty()) mistakes.add(fmt::format("{}: no measurements.csv", flags.run));
  mistakes.throw_if_any();
  const std::string out = flags.out.empty() ? flags.run + "/calibration.yaml" : flags.out;
  const Calibration calibration =
      calibrate(*run.machine, run.measurements, flags.run + "/measurements.csv");
  check_fits(calibration, flags.run, flags.accept);
  write_aside(out, calibration_yaml(calibration));
  fmt::print(stderr, "{}\n", out);
  return 0;
}

void add_calibrate(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] =
      add_verb(app, chosen, "calibrate", "Fit a calibration to a run's benchmarks", calibrate_run);
  add_argument(*verb, "RUN", flags->run, "Folder with machine.txt and measurements.csv");
  add_value(*verb, "-o", flags->out, "FILE", "The file to write [RUN/calibration.yaml]");
  verb->add_flag("--accept", flags->accept, "Write fits that make no sense, too");
}

struct ValidationReportFlags {
  std::string run, calibration;
  std::vector<std::string> again;
};

int report_run(const ValidationReportFlags& flags) {
  const ValidationRun run = read_run(flags.run);
  const Calibration calibration = calibration_of(run, flags.run, flags.calibration);
  Validation validation = compare(run, calibration);
  for (const std::string& other : flags.again)
    validation.floors.push_back(floor_between(run, read_run(other)));
  write_aside(flags.run + "/accuracy.csv", accuracy_csv(validation));
  write_aside(flags.run + "/scores.csv", scores_csv(validation));
  write_aside(flags.run + "/report.html", to_html(validation));
  print_out(to_text(validation));
  fmt::print(stderr, "{0}/report.html  {0}/scores.csv\n", flags.run);
  return 0;
}

void add_validation_report(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] =
      add_verb(app, chosen, "report", "Compare a run's replays with predictions", report_run);
  add_argument(*verb, "RUN", flags->run, "Folder with plans, machine.txt and steps.csv");
  add_value(
      *verb, "--calibration", flags->calibration, "FILE",
      "Calibration for the predictions [RUN/calibration.yaml, else fitted to measurements.csv]");
  add_repeated(*verb, "--again", flags->again, "RUN",
               "A run of the same plans on another visit or card: the noise floor between the "
               "two; may be repeated");
}

}  // namespace

void add_validate_published(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] =
      add_verb(app, chosen, "published",
               "Score simulated times against measurements that others published", run_python);
  flags->script = "published/board.py";
  add_value(*verb, "BLOCK", flags->words, "", "Which blocks [all whose files are there]");
  add_data(*verb, flags->values["--data"]);
  add_value(*verb, "--html", flags->values["--html"], "FILE",
            "Write a page with a table and charts");
  add_value(*verb, "--rows", flags->values["--rows"], "FILE",
            "Write every row, measured and simulated, as CSV");
  add_format(*verb, flags->values["--format"], {"text", "json", "markdown"});
}

void add_validate_fit(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] =
      add_verb(app, chosen, "fit", "Fit the numbers of a model to published measurements, as YAML",
               run_python);
  flags->script = "fit/fit.py";
  add_argument(
      *verb, "WHAT,--what", flags->words.emplace_back(),
      "collectives, collective_tables, devices, kernels, megatron or network; needs scipy");
  add_data(*verb, flags->values["--data"]);
  add_value(*verb, "-o", flags->values["-o"], "FILE", "The file to write [standard output]");
}

void add_validate_steps(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] =
      add_verb(app, chosen, "steps",
               "Score predicted steps and peaks of whole models against measured ones", run_python);
  flags->script = "published/steps.py";
  flags->words.resize(2);
  add_argument(*verb, "RESULTS", flags->words[0],
               "results.csv of a run, such as validate/steps/predicted.csv");
  add_argument(*verb, "STEPS", flags->words[1], "steps.jsonl of './dev gpu visit'");
  add_format(*verb, flags->values["--format"], {"text", "json"});
}

void add_validate_torch(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] = add_verb(
      app, chosen, "torch",
      "Score predicted steps of PyTorch against measured ones, of './dev torch OUT'", run_python);
  flags->script = "pytorch/score.py";
  add_argument(*verb, "OUT", flags->words.emplace_back(), "Folder with score.csv and peaks.csv");
  add_format(*verb, flags->values["--format"], {"text", "json"});
}

void add_validate(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("validate", "Check simulated steps against real devices");
  verb->require_subcommand(1);
  add_replay_plans(*verb, chosen);
  add_calibrate(*verb, chosen);
  add_validation_report(*verb, chosen);
  add_validate_published(*verb, chosen);
  add_validate_fit(*verb, chosen);
  add_validate_torch(*verb, chosen);
  add_validate_steps(*verb, chosen);
  for (CLI::App* inner : verb->get_subcommands({})) inner->group("Verbs");
  verb->footer(
      "validate/FORMATS.md explains the files; the harness of validate/cuda makes those of a run.");
}

}  // namespace baechi
