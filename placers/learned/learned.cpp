#include <fmt/format.h>
#include <oneapi/tbb/task_arena.h>

#include <memory>
#include <optional>

#include "placers/interface/objective_choice.h"
#include "placers/interface/placer.h"
#include "placers/learned/draws.h"
#include "placers/learned/grouped.h"
#include "placers/learned/moves.h"
#include "placers/learned/policy_file.h"
#include "sim/enum_option.h"
#include "sim/error.h"

namespace baechi::learned {

/// What learns, and how it acts.
enum class Way : std::uint8_t {
  list,     ///< a network places bundle after bundle: GDP, DOPPLER's placing half
  placeto,  ///< it moves bundles of a whole placement
  grouped,  ///< groups first: ColocRL, HierarchicalRL
};
constexpr auto names_of(Way) {
  return std::to_array<Named<Way>>(
      {{Way::list, "list"}, {Way::placeto, "placeto"}, {Way::grouped, "grouped"}});
}

namespace {

/// Learns on the very graph that it places, as the papers do, or acts by a policy that was trained
/// on others. What it answers is the best of what it drew: answers of heuristics are not among it.
class Learned final : public Placer {
 public:
  explicit Learned(Options& o)
      : way_(read_enum(o, "as", Way::list,
                       "list: a graph network places op after op (GDP, DOPPLER); placeto: it moves "
                       "the ops of a placement; grouped: it groups them first (ColocRL, "
                       "HierarchicalRL)")),
        objective_(read_objective(o)),
        path_(o.path("policy", "a file of 'baechi train', instead of training from nothing")),
        samples_(static_cast<std::size_t>(o.get(
            "samples", std::int64_t{0},
            "placements drawn from the policy after its likeliest one, each near the best so far",
            0, 100'000'000))),
        settings_{.evaluations = static_cast<std::size_t>(
                      o.get("evaluations", std::int64_t{path_.empty() ? 4000 : 0},
                            "of the objective, to train on the graph; with a policy, 0 by default",
                            0, 1'000'000'000)),
                  .imitate = o.get("imitate", true,
                                   "begin with what the best heuristic does (list, placeto)")},
        refresh_(static_cast<std::size_t>(
            o.get("refresh", std::int64_t{8},
                  "placeto: messages between ops pass again after so many moves; 1: as published",
                  1, 1'000'000))) {
    if (!path_.empty() && way_ != Way::list)
      o.mistake("policy", "only 'as: list' acts by a policy");
    if (way_ != Way::list && settings_.evaluations == 0)
      o.mistake("evaluations", "without any there is nothing to answer");
    if (!path_.empty()) policy_ = read_policy(path_);
  }

  bool can_stop() const override { return true; }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    return place_watched(p, seed, {});
  }

  Placement place_watched(const Problem& p, std::uint64_t seed,
                          const Watcher& watcher) const override {
    // Isolated: while it waits for its own threads, this one takes up no other work.
    return oneapi::tbb::this_task_arena::isolate([&] {
      const Environment environment(p, *objective_.objective, seed);
      TrainingSettings settings = settings_;
      settings.seed = seed;
      return answer(environment, find(environment, settings, watcher));
    });
  }

 private:
  Found find(const Environment& environment, const TrainingSettings& settings,
             const Watcher& watcher) const {
    if (way_ == Way::placeto) return learn_moves(environment, settings, refresh_, watcher.stop);
    if (way_ == Way::grouped) return learn_groups(environment, settings, watcher.stop);
    Training training({&environment}, settings,
                      policy_ ? std::optional(policy_->weights) : std::nullopt);
    const std::size_t tenth = std::max<std::size_t>(settings.evaluations / 10, Training::batch);
    Found found;
    while (!training.done() && !stopped(watcher.stop)) {
      training.update();
      const std::size_t before = training.state().evaluations;
      if (before == 0 || (before % tenth >= Training::batch && !training.done())) continue;
      const CurveRow row = training.curve_row(0.0);
      if (found.first == 0.0) found.first = row.mean;
      if (row.mean > 0.0) found.last = row.mean;
      if (watcher.progress)
        watcher.progress(
            fmt::format("{} of {} evaluations: {:.3f} x {}", row.evaluations, settings.evaluations,
                        row.mean, environment.reference_placer()),
            static_cast<double>(row.evaluations) / static_cast<double>(settings.evaluations));
    }
    const Samples& seen = training.samples().front();
    found.devices = seen.devices;
    found.settled = settled_after(seen.improvements);
    found.score = seen.score;
    found.evaluations = training.state().evaluations;
    draw_placements(environment, training.weights(), samples_, settings.seed, watcher.stop, found);
    return found;
  }

  static Placement answer(const Environment& environment, const Found& found) {
    if (!found.score.feasible())
      throw InfeasibleError(
          fmt::format("learned: nothing fits of {} placements", found.evaluations));
    Placement result = environment.placement(found.devices);
    const bool known = !environment.teacher().empty();
    result.facts = {{"evaluations", static_cast<double>(found.evaluations)},
                    {"found_us", to_us(found.score.value)},
                    {"blocks", static_cast<double>(environment.num_bundles())},
                    {"reference_us", known ? environment.reference() / 1000.0 : -1.0}};
    if (found.settled > 0) result.facts["settled_after"] = static_cast<double>(found.settled);
    if (found.first > 0.0) {
      result.facts["first_mean"] = found.first;
      result.facts["last_mean"] = found.last;
    }
    result.detail =
        fmt::format("{} after {} evaluations", to_text(found.score.value), found.evaluations);
    if (known)
      result.detail += fmt::format(
          "; {} by {}", to_text(Duration{static_cast<std::int64_t>(environment.reference())}),
          environment.reference_placer());
    return result;
  }

  Way way_;
  ObjectiveChoice objective_;
  std::string path_;
  std::optional<Policy> policy_;
  std::size_t samples_;
  TrainingSettings settings_;
  std::size_t refresh_;
};

}  // namespace
}  // namespace baechi::learned

namespace baechi {

std::unique_ptr<Placer> make_learned(Options& o) {
  return std::make_unique<learned::Learned>(o);
}

}  // namespace baechi
