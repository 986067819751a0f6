#include "validate/replays.h"

namespace baechi::validate {

void replay_plans(Executor& executor, std::span<const ReplayPlan> plans, ReplayChoice choice,
                  ValidationRun& run) {
  for (int round = 0; round < 2; ++round) {
    for (const ReplayPlan& plan : plans) {
      for (int k = 0; k < choice.replays; ++k) {
        const Outcome outcome = executor.run(plan);
        const int replay = round * choice.replays + k;
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
        if (k >= choice.timelines || outcome.verdict != Verdict::ok) continue;
        TaskTimes times{.plan = plan.name,
                        .mode = std::string(to_text(plan.mode)),
                        .replay = replay,
                        .round = round,
                        .rows = {}};
        for (std::size_t i = 0; i < plan.tasks.size(); ++i)
          times.rows.push_back(
              {static_cast<int>(i), outcome.replay.start[i], outcome.replay.end[i]});
        run.timeline.push_back(std::move(times));
      }
    }
  }
}

}  // namespace baechi::validate
