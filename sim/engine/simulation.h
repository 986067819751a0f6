/// Replays one training step of a placed graph in simulated time.
#pragma once
#include <memory>
#include <span>

#include "sim/problem/problem.h"
#include "sim/problem/step.h"

namespace baechi {

/// One step under problem.engine. Deterministic, and free of shared state: call it from as many
/// threads as there are problems.
///
/// Semantics::event. At one instant, first all that ends then ends (its memory is given back, the
/// ops it made ready queue up, its outputs' transfers queue up); then transfers start, in the order
/// of (production time, tensor id, receiving device), skipping those whose channels are taken; then
/// ops, by device id. Work of no length ends in a further round at the same instant.
/// Head-of-line blocking: each sender's transfers start in queue order, even if a later could go.
/// An op that becomes ready in a later round of an instant goes by id among those of the instant
/// that still wait. Without cache, the copies of one tensor for one device are sent in the order of
/// their edges and serve them in that order. Weights are requested at time 0, in op id order over
/// all devices; the first that does not fit is the verdict. Without overlap a transfer waits until
/// neither end computes, an op until its device moves nothing.
///
/// Semantics::baechi. As sim/original/simulation.h says; memory is counted but no limit is
/// enforced; of the other options none matters. Throws InputError if the cluster is not uniform.
///
/// Aborts if `placement` does not cover the graph; running out of memory is a result.
StepResult simulate(const Problem& problem, const Placement& placement,
                    std::span<StepObserver* const> observers = {});

/// simulate() for many placements of one problem. Data that do not depend on the placement are made
/// once, and memory is used again. For one thread.
class Simulator {
 public:
  explicit Simulator(const Problem& problem);  ///< its parts outlive this
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// The result is valid until the next call.
  const StepResult& run(const Placement& placement, std::span<StepObserver* const> observers = {});

  class Engine;  ///< one for each semantics

 private:
  std::size_t num_ops_, num_devices_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace baechi
