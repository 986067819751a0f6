#include "validate/replays.h"

namespace baechi::validate {

namespace {

/// One replay, as rows.
void replay_once(Executor& executor, const ReplayPlan& plan, int round, int number,
                 const ReplayChoice& choice, ValidationRun& run) {
  const Outcome outcome = executor.run(plan);
  const int replay = round * choice.replays + number;
  StepRow row{.plan = plan.name,
              .replay = replay,
              .round = round,
              .mode = std::string(to_text(plan.mode)),
              .verdict = outcome.verdict,
              .peaks = outcome.peaks};
  if (outcome.verdict == Verdict::ok) {
    row.step = outcome.replay.step();
    row.submit = outcome.submit;
  }
  run.steps.push_back(std::move(row));
  if (number >= choice.timelines || outcome.verdict != Verdict::ok) return;
  TaskTimes times{.plan = plan.name,
                  .mode = std::string(to_text(plan.mode)),
                  .replay = replay,
                  .round = round,
                  .rows = {}};
  for (std::size_t i = 0; i < plan.tasks.size(); ++i)
    times.rows.push_back({static_cast<int>(i), outcome.replay.start[i], outcome.replay.end[i]});
  run.timeline.push_back(std::move(times));
}

}  // namespace

void replay_plans(Executor& executor, std::span<const ReplayPlan> plans, ReplayChoice choice,
                  ValidationRun& run, const Watch& watch) {
  std::atomic<std::size_t> done = 0;
  const auto watched =
      begin_watch(watch, done, 2 * plans.size() * static_cast<std::size_t>(choice.replays));
  const int turns = choice.in_turn ? choice.replays : 1;
  const int each = choice.in_turn ? 1 : choice.replays;
  for (int round = 0; round < 2; ++round)
    for (int turn = 0; turn < turns; ++turn)
      for (const ReplayPlan& plan : plans)
        for (int k = 0; k < each; ++k, ++done)
          replay_once(executor, plan, round, turn * each + k, choice, run);
}

}  // namespace baechi::validate
