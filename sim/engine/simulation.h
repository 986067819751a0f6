/// Simulates one training step of a placed graph.
#pragma once
#include "sim/problem/step.h"

namespace baechi {

/// Throws InputError if no step of any graph can be simulated: transfers are staged and there are
/// several nodes, or Semantics::baechi and the cluster is not uniform.
void check_engine(const Cluster& cluster, const EngineOptions& options);

/// One step under problem.engine. Deterministic and without shared state, hence thread-safe.
///
/// Semantics::event. The contract is the 14 rules of ARCHITECTURE.md, section "Rules of a step";
/// tests/sim/engine and tests/checker check them. Where the rules are implemented:
/// - event_engine.cpp: order of one instant (1), overlap (6), weights (7), lanes' program (11);
/// - transfer_queues.h: senders' queues and their blocked heads (2, 3), no cache (5);
/// - channels.h: modes of transfers, with `staged` (14);
/// - queues.h: ready ops (4), how long outputs and copies take memory (8), lanes (10);
/// - step_graph.h: collectives (12);
/// - transfer_queues.h: nodes (13);
/// - sim/graph/op_graph.h: control edges (9).
///
/// Semantics::baechi. See sim/original/simulation.h; memory is counted but no limit is enforced,
/// and all other options are ignored. Throws InputError as check_engine() does.
///
/// Aborts if `placement` does not cover the graph; out of memory is a result.
StepResult simulate(const Problem& problem, const Placement& placement,
                    std::span<StepObserver* const> observers = {});

/// simulate() for many placements of one problem: reuses its memory and all data that do not depend
/// on the placement. Not thread-safe.
class Simulator {
 public:
  explicit Simulator(const Problem& problem);  ///< its parts outlive this
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// The result is valid until the next call.
  const StepResult& run(const Placement& placement, std::span<StepObserver* const> observers = {});

  /// Steps of one problem under one semantics.
  class Engine {
   public:
    virtual ~Engine() = default;
    virtual const StepResult& run(const Placement&, std::span<StepObserver* const>) = 0;
  };

 private:
  std::size_t num_ops_, num_devices_;
  std::unique_ptr<Engine> engine_;
};

/// The time-ordered simulation of a step (Semantics::event). The parts of `problem` must outlive
/// it.
std::unique_ptr<Simulator::Engine> make_event_engine(const Problem& problem);

}  // namespace baechi
