/// How placed graphs are executed, for the engine and for placers, and the words for it in files.
#pragma once
#include <cstdint>

#include "sim/names.h"

namespace baechi {

/// `event`: strictly time-ordered, memory limits enforced; the validated model.
/// `baechi`: the original's list simulation (`virtual_scheduler`), bit-exact with its quirks.
enum class Semantics : std::uint8_t { event, baechi };

/// Which transfers may run concurrently.
enum class Transfers : std::uint8_t {
  sequential,  ///< one half-duplex channel per device; a transfer holds both ends for its length
  parallel,    ///< unlimited, each at full speed
  duplex,      ///< one sending and one receiving channel per device
  shared,      ///< one bus for all, which one transfer saturates
  /// Through host memory, like GPUs without peer access: a tensor holds its sender's outgoing
  /// channel for half of its time, then, once that is free, its receiver's incoming channel for the
  /// other half. The latency comes first and holds no channel.
  staged,
};

/// Which of a device's ready ops runs next. Ties: the lower op id.
enum class ReadyOrder : std::uint8_t {
  fifo,      ///< in the order of becoming ready
  priority,  ///< by falling Placement::priority
  /// Each lane runs its ops strictly in the order of their ids, like a CUDA stream. A member of a
  /// collective holds its lane until the collective ends.
  program,
};

struct EngineOptions {
  Semantics semantics = Semantics::event;
  Transfers transfers = Transfers::sequential;
  ReadyOrder queue = ReadyOrder::fifo;
  bool cache_tensors = true;   ///< a tensor is sent to a device once, for all readers there
  bool overlap = true;         ///< a device computes while it sends or receives
  bool enforce_memory = true;  ///< stop at the first request over a device's limit
  /// Slowdown of a collective that starts while lane "compute" of a member's device is busy.
  /// Source: vTrain (MICRO 2024) measured 1.3, Daydream (ATC 2020) 1.34.
  double overlapped = 1.0;
  /// Slowdown of an op of lane "compute" that starts while its device runs a collective.
  double disturbed = 1.0;
  bool count_memory = true;  ///< false: memory is neither counted nor enforced, which is faster
};

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
