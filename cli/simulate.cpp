#include <tuple>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/step_text.h"
#include "sim/explain/explanation.h"
#include "sim/objective/replicas.h"
#include "traces/format/compressed_file.h"

namespace baechi {

using pipeline::PipelineOptions;
using pipeline::PipelineResult;

namespace {

struct SimulateArguments {
  TraceArgument trace;
  PlatformFlags cluster;
  std::string placement, objective, timeline, format;
  std::string pipeline, micro_batches;
  bool recompute = false, schedule = false;
};

/// Parses --pipeline, --micro-batches and --recompute; nullopt without --pipeline. Throws
/// InputError.
std::optional<PipelineOptions> read_pipeline(const SimulateArguments& arguments) {
  Mistakes mistakes;
  if (arguments.pipeline.empty()) {
    if (!arguments.micro_batches.empty() || arguments.recompute)
      mistakes.add("--micro-batches and --recompute need --pipeline SCHEDULE");
    mistakes.throw_if_any();
    return std::nullopt;
  }
  PipelineOptions options{.recompute = arguments.recompute};
  options.schedule = arguments.pipeline;
  if (pipeline::find_schedule(options.schedule) == nullptr)
    mistakes.add("--pipeline: " + not_one_of(options.schedule, entry_names(pipeline::schedules())));
  if (!arguments.micro_batches.empty()) {
    constexpr std::size_t most = 100'000;
    const auto count = parse_number<std::size_t>(arguments.micro_batches);
    if (!count || *count == 0 || *count > most)
      mistakes.add(fmt::format("--micro-batches: '{}' is not a whole number from 1 to {}",
                               arguments.micro_batches, most));
    options.micro_batches = count.value_or(1);
  }
  mistakes.throw_if_any();
  return options;
}

std::string schedule_table() {
  std::string text = "Schedules of --pipeline (p devices, v chunks of ops on each):\n";
  for (const pipeline::ScheduleEntry& entry : pipeline::schedules())
    text += fmt::format("  {:<12} {}\n", entry.name, entry.summary);
  return text;
}

/// The objective's value, "max_load   17.790 ms", and the placement's violations.
std::string score_line(const std::string& objective, const Score& score) {
  std::string line = fmt::format("{:<12} {}", objective,
                                 score.deadlock ? std::string("none") : bold(to_text(score.value)));
  if (score.over > Bytes{})
    line += red(fmt::format(", {} over the memory limits", to_text(score.over)));
  if (score.misplaced > 0)
    line += red(fmt::format(", {} ops on devices that cannot run them", score.misplaced));
  if (score.split_groups > 0)
    line += red(fmt::format(", {} colocation groups split", score.split_groups));
  if (score.deadlock)
    line +=
        red(": deadlock: an accelerator starts its ops when all their external inputs are there, "
            "and here two devices need each other's outputs");
  return line + "\n";
}

nlohmann::ordered_json score_json(const std::string& objective, const Score& score) {
  using Json = nlohmann::ordered_json;
  return {{objective + "_us", score.deadlock ? Json() : Json(to_us(score.value))},
          {"feasible", score.feasible()},
          {"over_bytes", score.over.count},
          {"misplaced_ops", score.misplaced},
          {"split_groups", score.split_groups},
          {"deadlock", score.deadlock}};
}

/// "split        2 colocation groups: 'x' ('a' is on gpu0, 'b' on gpu1), 'y' (...)": the first
/// three split groups; "" if there are none.
std::string split_line(const std::vector<SplitGroup>& split, const Problem& problem,
                       const Placement& placement) {
  if (split.empty()) return "";
  std::string text = fmt::format("split        {} colocation group{}:", split.size(),
                                 split.size() == 1 ? "" : "s");
  constexpr std::size_t listed = 3;
  for (const SplitGroup& s : split | std::views::take(listed)) {
    const auto device = [&](OpId v) { return problem.cluster.device(placement.device[v]).name; };
    text += fmt::format(" '{}' ('{}' is on {}, '{}' on {}){}", problem.graph.group_name(s.group),
                        problem.graph.name(s.first), device(s.first), problem.graph.name(s.other),
                        device(s.other), &s == &split.back() ? "" : ",");
  }
  return red(text + (split.size() > listed ? " ..." : "")) + "\n";
}

/// The ops of a step, by start; ties: by device, then op.
std::vector<Timeline::OpSlice> slices_by_start(const Timeline& timeline) {
  std::vector<Timeline::OpSlice> slices = timeline.ops();
  std::ranges::sort(slices, {}, [](const Timeline::OpSlice& s) {
    return std::tuple(s.start, s.device, s.end, s.op);
  });
  return slices;
}

Report schedule_report(const Problem& problem, const Timeline& timeline) {
  Report report(
      {{"op", "op"},
       {"device", "device"},
       {"lane", problem.graph.plain() ? std::nullopt : std::optional<std::string>("lane")},
       {"start_us", "start"},
       {"end_us", "end"}});
  for (const auto& [op, device, start, end] : slices_by_start(timeline))
    report.add({problem.graph.name(op), problem.cluster.device(device).name,
                problem.graph.lanes()[index(problem.graph.lane(op))], start.time_since_epoch(),
                end.time_since_epoch()});
  return report;
}

/// The table and, of at most 40 ops, a bar for each.
std::string schedule_text(const Problem& problem, const Timeline& timeline) {
  constexpr std::size_t most = 40, width = 60;
  std::string text = schedule_report(problem, timeline).table();
  const std::vector<Timeline::OpSlice> slices = slices_by_start(timeline);
  if (slices.empty() || slices.size() > most) return text;
  Duration last{1};
  std::size_t longest = 0;
  for (const Timeline::OpSlice& s : slices) {
    last = std::max(last, s.end.time_since_epoch());
    longest = std::max(longest, problem.graph.name(s.op).size());
  }
  const auto column = [&](TimePoint at) {
    return static_cast<std::size_t>(static_cast<double>(at.time_since_epoch().count()) /
                                    static_cast<double>(last.count()) * width);
  };
  text += "\n";
  for (const DeviceId d : problem.cluster.devices())
    for (const Timeline::OpSlice& s : slices) {
      if (s.device != d) continue;
      const std::size_t from = std::min(column(s.start), width - 1),
                        until = std::max(from + 1, column(s.end));
      text += fmt::format("  {}  {:<{}} |{}{}{}|\n", problem.cluster.device(d).name,
                          problem.graph.name(s.op), longest, std::string(from, ' '),
                          std::string(until - from, '='), std::string(width - until, ' '));
    }
  return text;
}

int simulate_once(const SimulateArguments& arguments) {
  const std::optional<PipelineOptions> pipeline = read_pipeline(arguments);
  Choice choice;
  std::unique_ptr<Objective> objective;
  if (!arguments.objective.empty()) {
    choice = parse_choice(arguments.objective, "--objective");
    objective = make_objective(choice.name, std::move(choice.options), choice.where);
  }
  const auto [name, experiment, samples] = read_experiment(arguments.trace, arguments.cluster);
  const Problem given = experiment.problem();
  std::optional<Stage> stage("reading " + arguments.placement);
  const Placement given_placement = read_placement(arguments.placement, given, "simulate");
  const ExperimentStep step = experiment.step(given_placement);
  const Problem problem = step.problem();
  const Placement& placement = step.placement();

  stage.emplace("simulating");
  Timeline timeline;
  std::vector<StepObserver*> observers;
  const bool drawn = !arguments.timeline.empty() && !pipeline;
  if (drawn || arguments.schedule) observers.push_back(&timeline);
  const StepResult result = step.simulate(observers);
  if (drawn)
    write_file(arguments.timeline, [&](const TextSink& sink) {
      write_perfetto(sink, problem, timeline, result,
                     critical_path_of(problem, placement, timeline, result));
    });
  std::optional<PipelineResult> streamed;
  if (pipeline && !given_placement.home.empty())
    throw InputError("--pipeline: each micro-batch would copy the weights that wait again");
  if (pipeline) {
    try {
      pipeline::check_pipeline(problem, *pipeline, experiment.graph().after_placing);
    } catch (const InputError& e) {
      throw InputError(std::string("--pipeline: ") + e.what());
    }
    if (arguments.timeline.empty())
      streamed = pipeline::simulate_pipeline(problem, placement, *pipeline);
    else
      write_file(arguments.timeline, [&](const TextSink& sink) {
        streamed = pipeline::simulate_drawn(problem, placement, *pipeline, sink);
      });
  }

  const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
  const std::vector<SplitGroup> split = split_groups(placement, problem.graph);
  std::optional<Score> score;
  if (objective) score = objective->score(problem, placement);
  stage.reset();
  if (arguments.format == "json") {
    nlohmann::ordered_json json = step_json(result, bounds, problem, placement);
    json["split_groups"] = split.size();
    if (has_replicas(placement)) json["replicas_left_out"] = true;
    add_times(json, experiment);
    if (score) json.update(score_json(choice.name, *score));
    if (arguments.schedule) json["schedule"] = schedule_report(problem, timeline).json();
    if (streamed) json["pipeline"] = pipeline_json(*streamed, *pipeline, problem.cluster, samples);
    print_json(json);
  } else {
    print_out(
        times_line(experiment) + split_line(split, problem, placement) +
        (has_replicas(placement) ? "replicas     stages are simulated on their first device only\n"
                                 : "") +
        step_table(result, bounds, problem, placement) +
        (score ? "\n" + score_line(choice.name, *score) : "") +
        (arguments.schedule ? "\n" + schedule_text(problem, timeline) : "") +
        (streamed ? "\n" + pipeline_table(*streamed, *pipeline, problem.cluster, samples) : ""));
  }
  return 0;
}

}  // namespace

void add_simulate(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      app, chosen, "simulate",
      "Simulate a training step of a placed graph: time, memory, transfers", simulate_once);
  add_trace_argument(*verb, arguments->trace);
  add_value(*verb, "--placement", arguments->placement, "FILE",
            "Placement file, or what --export of place or fit writes")
      ->required();
  add_value(*verb, "--objective", arguments->objective, "NAME[:k=v,...]",
            "Also print the placement's value of this objective ('baechi list objectives')");
  add_value(
      *verb, "--pipeline", arguments->pipeline, "SCHEDULE",
      fmt::format("Also simulate a pipeline of micro-batches with this schedule: {} (see below)",
                  fmt::join(entry_names(pipeline::schedules()), ", ")));
  add_value(*verb, "--micro-batches", arguments->micro_batches, "N", "Number of micro-batches [8]");
  verb->add_flag("--recompute", arguments->recompute,
                 "Keep only the tensors that a stage receives, and recompute the forward pass "
                 "(activation checkpointing)");
  add_value(*verb, "--timeline", arguments->timeline, "FILE",
            "Write the timeline of the step, or of the pipeline with --pipeline, for "
            "ui.perfetto.dev: .json or .json.gz");
  verb->add_flag("--schedule", arguments->schedule,
                 "Also list the ops of the step by start: device, start and end");
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      schedule_table() +
      "Out of memory is a result (exit code 0): the failed allocation, and the live memory.\n"
      "Examples:\n"
      "  baechi simulate graph.json --placement placement.json --devices 4 --memory '8 GiB'\n"
      "  baechi simulate graph.json --placement placement.json --devices 4 --memory '8 GiB' \\\n"
      "      --bandwidth '12 GB/s' --transfers duplex --timeline step.json.gz\n"
      "  baechi simulate bert24_training.json --placement placement.json \\\n"
      "      --objective max_load:phases=apart    on the cluster that TRACE names\n"
      "  baechi simulate bert24_training.json --placement placement.json --pipeline 1f1b \\\n"
      "      --micro-batches 32");
}

}  // namespace baechi
