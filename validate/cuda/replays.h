/// Replays plans: machine.txt, steps.csv, timeline.csv and canaries.csv.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "validate/plan/plan.h"

namespace baechi::validate::replay {

struct ReplayOptions {
  std::string folder;
  int devices = 4;       ///< into how many the GPU is cut; more if a plan has more
  int warm_up = 5;       ///< passes over all plans that are not told
  int repeats = 30;      ///< timed passes per round, each in another random order
  int rounds = 2;        ///< differences between rounds are noise
  int timelines = 3;     ///< of how many replays of each plan the tasks' times are told
  double seconds = 240;  ///< no pass begins later than this
  std::uint64_t seed = 1;
  bool green_contexts = true;
  bool more = false;  ///< adds to the folder's files, and leaves out earlier failures
};

/// Exit code: 1 if a replay failed (out of memory is no failure). Throws Skip if there is no usable
/// GPU, GpuLost if it is lost underway. The files then have all finished replays.
int replay_plans(const std::vector<ReplayPlan>& plans, const ReplayOptions& options);

}  // namespace baechi::validate::replay
