/// The words of engine options in files, flags and results.
#pragma once
#include "sim/names.h"
#include "sim/problem/engine_options.h"

namespace baechi {

constexpr auto names_of(Semantics) {
  return std::to_array<Named<Semantics>>(
      {{Semantics::event, "event", "strictly by time, memory limits enforced"},
       {Semantics::baechi, "baechi", "the original's simulation, memory counted only"}});
}

constexpr auto names_of(Transfers) {
  return std::to_array<Named<Transfers>>(
      {{Transfers::sequential, "sequential", "one transfer per device"},
       {Transfers::parallel, "parallel", "any number"},
       {Transfers::duplex, "duplex", "one each way"},
       {Transfers::shared, "shared", "one in all"},
       {Transfers::staged, "staged", "one each way, through host memory"}});
}

constexpr auto names_of(ReadyOrder) {
  return std::to_array<Named<ReadyOrder>>(
      {{ReadyOrder::fifo, "fifo", "the one that became ready first"},
       {ReadyOrder::priority, "priority", "the one with the largest priority"},
       {ReadyOrder::program, "program", "each lane in recorded order, as a CUDA stream"}});
}

}  // namespace baechi
