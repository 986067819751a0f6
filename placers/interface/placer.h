/// The interface of all placers: a placer decides which device runs each op.
#pragma once
#include <atomic>

#include "sim/engine/simulation.h"
#include "sim/objective/objective.h"

namespace baechi {

/// The executed step, where transforms made another graph for the placers to see.
class ExecutedStep {
 public:
  virtual ~ExecutedStep() = default;
  /// The executed step of a placement of the graph that placers see.
  virtual StepResult simulate(const Placement& seen, bool enforce_memory) const = 0;
  /// The executed step as a problem. All ops behind one op or group that placers see form one
  /// group.
  virtual Problem problem() const = 0;
  /// A placement of problem() as one of the graph that placers see.
  virtual Placement seen(const Placement& placement) const = 0;
};

/// A caller's control of a running placer: further input, progress and stop.
struct Watcher {
  const std::atomic<bool>* stop = nullptr;  ///< once true: return the best placement so far
  /// Called from time to time with one line on the progress and the fraction of the work that is
  /// done, 0 to 1; never from two threads at once. May be empty.
  std::function<void(std::string_view line, double done)> progress{};
  const ExecutedStep* step = nullptr;  ///< null: the problem's graph is executed
  /// The executed step of placements whose weights wait; null: they cannot.
  const ExecutedStep* waiting = nullptr;
};

/// How the simulated step of `placement` runs out of memory, or "" if it does not.
std::string out_of_memory(const Problem& problem, const Placement& placement);

class Placer {
 public:
  virtual ~Placer() = default;
  /// Gives every op a device; all members of a colocation group get the same device, except with
  /// `adjust: none`. The same problem and seed give the same placement. May be called from several
  /// threads at once: const, and without shared state. Throws InfeasibleError if the placer finds
  /// no placement within the devices' memory.
  virtual Placement place(const Problem& problem, std::uint64_t seed) const = 0;

  /// As place(), with a watcher. Placers with can_stop() obey `stop`: they take long and have a
  /// placement to return at any time.
  virtual Placement place_watched(const Problem& problem, std::uint64_t seed,
                                  const Watcher& /*watcher*/) const {
    return place(problem, seed);
  }
  /// Whether place_watched() obeys Watcher::stop.
  virtual bool can_stop() const { return false; }
  /// Whether a part may be on several devices (sim/objective/replicas.h).
  virtual bool replicates() const { return false; }
  /// Throws InputError if its options do not apply to the problem, whatever the placement.
  virtual void check(const Problem& /*problem*/) const {}
};

/// A placer that is a function of the problem and the seed.
template <class Place>
std::unique_ptr<Placer> placer_of(Place place) {
  class Function final : public Placer {
   public:
    explicit Function(Place place) : place_(std::move(place)) {}
    Placement place(const Problem& problem, std::uint64_t seed) const override {
      return place_(problem, seed);
    }

   private:
    Place place_;
  };
  return std::make_unique<Function>(std::move(place));
}

struct ObjectiveChoice {
  std::string name;
  std::unique_ptr<Objective> objective;
};

/// A program that scores placements (placers/external/exec.cpp).
std::unique_ptr<Objective> make_exec_objective(Options& options);

/// The option `objective`: a name, or {name: {options}}; step_time by default.
ObjectiveChoice read_objective(Options& options);

enum class Variant : std::uint8_t {
  standard,  ///< the paper's algorithm, as in Baechi's TensorFlow system
  /// Baechi's PyTorch system: any number of transfers run at once, received copies take memory,
  /// nothing is freed before the step ends.
  pytorch,
};

constexpr auto names_of(Variant) { return enumerators<Variant::pytorch>(); }

inline Variant read_variant(Options& options) {
  return read_enum(
      options, "variant", Variant::standard,
      "pytorch: plan as Baechi's PyTorch system does: parallel transfers, no memory freed");
}

}  // namespace baechi
