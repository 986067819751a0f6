/// Pipeline schedules as data: the order in which stages run the passes of micro-batches.
#pragma once
#include <span>
#include <vector>

#include "sim/units.h"

namespace baechi::pipeline {

/// The work of a stage on one micro-batch and one chunk of the model.
enum class PassKind : std::uint8_t {
  forward,    ///< F
  backward,   ///< B: all backward ops, or, if there are W passes, those on which other chunks wait
  weights,    ///< W: the other backward ops, which compute gradients of weights
  recompute,  ///< R: the forward ops again (activation checkpointing)
  update,     ///< U: the update ops
};

struct Pass {
  PassKind kind = PassKind::forward;
  std::uint32_t chunk = 0;
  std::uint32_t micro_batch = 0;
  friend auto operator<=>(const Pass&, const Pass&) = default;
};
std::string to_text(const Pass& pass);  ///< "F 0 of micro-batch 3"

/// The assignment of chunks to p stages; a micro-batch goes through the chunks 0, 1, 2, ...
enum class Layout : std::uint8_t {
  line,     ///< chunk c on stage c
  loop,     ///< chunk c on stage c mod p, v chunks on each stage
  vee,      ///< 2p chunks: c < p on stage c, the others on stage 2p - 1 - c
  two_way,  ///< chunk c on stage c; for the second half of the micro-batches on stage p - 1 - c
};
std::size_t home_stage(Layout layout, std::size_t chunk, std::size_t stages);

/// The times of a chunk's passes, and of their transfers to the next and previous chunk.
struct PassTimes {
  Duration forward{1}, backward{1}, weights{1};
  Duration sends_forward{}, sends_backward{};
};

/// The parameters of a schedule.
struct Shape {
  std::size_t stages = 1;
  std::size_t laps = 1;  ///< v, the chunks per stage, for Layout::loop
  std::size_t micro_batches = 1;
  std::vector<PassTimes> times{};  ///< [chunks]; empty: all passes take equal time
};

struct Schedule {
  std::size_t chunks = 1;
  std::size_t micro_batches = 1;
  std::vector<std::vector<Pass>> passes{};  ///< [stages], in the order in which the stage runs them
  /// The most activations that a stage keeps: pairs of chunk and micro-batch between F and the end
  /// of B or W. [stages]
  std::vector<std::size_t> in_flight{};
  /// The most micro-batches by which a chunk may lead a chunk that reads from it, for each stage
  /// between them. 0: limited by `passes` only.
  std::uint32_t ahead = 0;
};

struct ScheduleEntry {
  std::string_view name;     ///< as written after --pipeline
  std::string_view summary;  ///< one line of help
  std::string_view source;   ///< paper
  Layout layout = Layout::line;
  bool training = true;  ///< false: forward ops only
  bool splits = false;   ///< has W passes
  bool flushes = true;  ///< a pipeline flush before the update, and none of the next step before it
  /// Versions of the weights that stage s of p keeps.
  std::size_t (*versions)(std::size_t stage, std::size_t stages);
  /// Throws InputError if there is no such schedule for the shape.
  Schedule (*make)(const Shape&);
};
std::span<const ScheduleEntry> schedules();
const ScheduleEntry* find_schedule(std::string_view name);  ///< null if there is none

/// The same schedule with an R before each B; with `keep_last`, none of the last micro-batch.
Schedule with_recompute(Schedule schedule, bool keep_last = false);

/// The most activations that each stage keeps, counted from the passes. [stages]
std::vector<std::size_t> most_in_flight(const Schedule& schedule);

/// Validates a schedule for `layout`; returns the first mistake, or nothing. Every chunk must have
/// F, B and, if any chunk has it, W of every micro-batch once, in this order, on the stage that the
/// layout assigns; no deadlock (F waits for the F of the previous chunk, B for the B of the next);
/// no stage keeps more than `in_flight`.
std::optional<std::string> mistake_in(const Schedule& schedule, Layout layout, bool training);

Schedule inference(const Shape& shape);
Schedule gpipe(const Shape& shape);
Schedule one_forward_one_backward(const Shape& shape);  ///< PipeDream's: an update after each B
Schedule flushed_1f1b(const Shape& shape);              ///< the same order, one update at the end
Schedule interleaved(const Shape& shape);
Schedule zb_h1(const Shape& shape);
Schedule zb_h2(const Shape& shape);
Schedule zb_v(const Shape& shape);
Schedule dualpipe(const Shape& shape);

/// A schedule without passes.
Schedule empty_schedule(const Shape& shape, std::size_t chunks);
/// Pass of a chunk and a micro-batch given as numbers of any type.
Pass pass(PassKind kind, std::size_t chunk, std::size_t micro_batch);
/// Appends to each stage U of each of its chunks, with the micro-batch of the chunk's last pass.
void add_updates(Schedule& schedule);

}  // namespace baechi::pipeline
