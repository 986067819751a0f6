#include "placers/feasible.h"
#include "placers/interface/wrapped_placer.h"

namespace baechi {
namespace {

/// No other algorithm has an answer, either.
struct AllFailedError : InfeasibleError {
  using InfeasibleError::InfeasibleError;
};

class WithFallback final : public WrappedPlacer {
 public:
  /// `checked`: the placement is simulated and must fit. Otherwise the objective that the placer
  /// minimises has already checked memory.
  WithFallback(std::unique_ptr<Placer> placer, bool checked)
      : WrappedPlacer(std::move(placer)), checked_(checked) {}

  Placement place_watched(const Problem& p, std::uint64_t seed,
                          const Watcher& watcher) const override {
    std::string why;
    try {
      Placement own = placer_->place_watched(p, seed, watcher);
      if (checked_) why = out_of_memory(p, own);
      if (why.empty() && watcher.step != nullptr) {
        if (std::optional<Placement> fits = with_less_memory(p, std::move(own), seed, watcher))
          return *std::move(fits);
        why = "the executed graph takes more memory than the graph given to the placer";
      } else if (why.empty()) {
        return own;
      }
    } catch (const AllFailedError& error) {  // of a placer inside `placer_`
      if (watcher.step == nullptr) throw;
      why = error.what();
    } catch (const InfeasibleError& error) {
      why = error.what();
    }
    return other(p, watcher.step, why);
  }

 private:
  /// The first placement whose executed step fits: `answer`, or one that the placer finds with less
  /// memory.
  std::optional<Placement> with_less_memory(const Problem& p, Placement answer, std::uint64_t seed,
                                            const Watcher& watcher) const {
    constexpr int most_tries = 8;
    Cluster tighter = p.cluster;
    for (int tries = 1;; ++tries) {
      if (!watcher.step->simulate(answer, p.engine.enforce_memory).oom) {
        if (tries > 1)
          answer.detail += fmt::format(
              "{}ran {} times, with less memory each time: the executed graph takes more",
              answer.detail.empty() ? "" : "; ", tries);
        return answer;
      }
      if (tries == most_tries) return std::nullopt;
      const StepResult needed = watcher.step->simulate(answer, false);
      for (const DeviceId d : tighter.devices()) {
        const Bytes limit = p.cluster.device(d).memory, peak = needed.devices[d].peak;
        if (peak > limit)
          tighter.set_memory(d, static_cast<double>(limit.count) / static_cast<double>(peak.count) *
                                    tighter.device(d).memory);
      }
      try {
        answer = placer_->place_watched({p.graph, tighter, p.costs, p.engine}, seed, watcher);
      } catch (const InfeasibleError&) {
        return std::nullopt;
      }
    }
  }

  static Placement other(const Problem& p, const ExecutedStep* step, const std::string& why) {
    Feasible found = find_feasible(step != nullptr ? step->problem() : p);
    if (found.placement && step != nullptr) {
      found.placement = step->seen(*found.placement);
      if (step->simulate(*found.placement, p.engine.enforce_memory).oom) {
        found = {{}, "nor does any other placement found fit"};
      }
    }
    if (!found.placement)
      throw AllFailedError(fmt::format("{}{}{}", why, found.how.empty() ? "" : "; ", found.how));
    found.placement->detail = fmt::format("fallback: {}; at first: {}", found.how, why);
    found.placement->placed_by = "fallback:" + found.by;
    return *std::move(found.placement);
  }

  bool checked_;
};

}  // namespace

std::unique_ptr<Placer> with_fallback(std::unique_ptr<Placer> placer, const PlacerEntry& entry,
                                      Options& options) {
  if (!options.get("fallback", entry.fallback, fallback_help)) return placer;
  return std::make_unique<WithFallback>(std::move(placer),
                                        entry.memory != CountedMemory::objective);
}

}  // namespace baechi
