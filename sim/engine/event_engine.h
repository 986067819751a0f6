/// The time-ordered simulation of a step (Semantics::event).
#pragma once
#include "sim/engine/simulation.h"

namespace baechi {

/// Steps of one problem under one semantics.
class Simulator::Engine {
 public:
  virtual ~Engine() = default;
  virtual const StepResult& run(const Placement&, std::span<StepObserver* const>) = 0;
};

/// The parts of `problem` must outlive the engine.
std::unique_ptr<Simulator::Engine> make_event_engine(const Problem& problem);

}  // namespace baechi
