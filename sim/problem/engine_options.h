/// How placed graphs are executed. The engine obeys these options, and placers plan for them.
#pragma once
#include <cstdint>

namespace baechi {

/// `event`: strictly time-ordered, memory enforced; the model we believe in.
/// `baechi`: the original's list simulation, bit for bit, quirks included (Baechi's code,
/// `virtual_scheduler`).
enum class Semantics : std::uint8_t { event, baechi };

/// The transfers that may run at the same time.
enum class Transfers : std::uint8_t {
  sequential,  ///< one half-duplex channel per device; a transfer holds both ends' for its length
  parallel,    ///< any number at once, each at full speed
  duplex,      ///< one sending and one receiving channel per device
  shared,      ///< one bus for all: a switch that one transfer fills
  /// Through host memory, as GPUs without peer access do: a tensor leaves by its sender's outgoing
  /// channel for half of its time, then, when that is free, comes in by its receiver's incoming one
  /// for the other half. The latency passes before the first, and holds nothing.
  staged,
};

/// Which of a device's ready ops runs next. Ties: the lower op id.
enum class ReadyOrder : std::uint8_t {
  fifo,      ///< in the order of becoming ready
  priority,  ///< by falling Placement::priority
  /// Each lane runs its ops strictly in the order of their ids, and waits for the next one: a CUDA
  /// stream. A member of a collective holds its lane until the collective ends.
  program,
};

struct EngineOptions {
  Semantics semantics = Semantics::event;
  Transfers transfers = Transfers::sequential;
  ReadyOrder queue = ReadyOrder::fifo;
  bool cache_tensors = true;  ///< a tensor crosses to a device once, however many ops there read it
  bool overlap = true;        ///< a device computes while it sends or receives
  bool enforce_memory = true;  ///< stop at the first request over a device's limit
  /// A collective that starts while lane "compute" of a member's device is busy takes so many times
  /// as long. Source: vTrain (MICRO 2024) measured 1.3, Daydream (ATC 2020) 1.34.
  double overlapped = 1.0;
  /// An op of lane "compute" that starts while its device runs a collective takes so many times as
  /// long.
  double disturbed = 1.0;
  bool count_memory = true;  ///< else no memory is accounted for, so none enforced: it is faster
};

}  // namespace baechi
