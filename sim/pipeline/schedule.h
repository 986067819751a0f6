/// The order in which the stages of a pipeline run the passes of its micro-batches, as data.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/units.h"

namespace baechi::pipeline {

/// The work of a stage on one micro-batch and one chunk of the model.
enum class PassKind : std::uint8_t {
  forward,    ///< F
  backward,   ///< B: all backward ops, or, if the schedule has W passes, those that chunks wait for
  weights,    ///< W: backward ops that no other chunk waits for: the gradients of the weights
  recompute,  ///< R: the forward ops once more, for the backward pass
  update,     ///< U: the update ops
};

struct Pass {
  PassKind kind = PassKind::forward;
  std::uint32_t chunk = 0;
  std::uint32_t micro_batch = 0;
  friend auto operator<=>(const Pass&, const Pass&) = default;
};
std::string to_text(const Pass& pass);  ///< "F 0 of micro-batch 3"

/// Which stage runs which chunks. p stages; a micro-batch goes through the chunks 0, 1, 2, ...
enum class Layout : std::uint8_t {
  line,     ///< chunk c on stage c
  loop,     ///< chunk c on stage c mod p, v chunks on each stage
  vee,      ///< 2p chunks: c on stage c, and on the way back c on stage 2p - 1 - c
  two_way,  ///< chunk c on stage c, and for the later half of the micro-batches on stage p - 1 - c
};
std::size_t home_stage(Layout layout, std::size_t chunk, std::size_t stages);

/// How long the passes of a chunk take, and what they send to the next chunk and the one before.
struct PassTimes {
  Duration forward{1}, backward{1}, weights{1};
  Duration sends_forward{}, sends_backward{};
};

/// The sizes for which a schedule is made.
struct Shape {
  std::size_t stages = 1;
  std::size_t laps = 1;  ///< chunks on each stage, if the layout leaves a choice: v
  std::size_t micro_batches = 1;
  std::vector<PassTimes> times{};  ///< [chunks]; empty: all passes are equally long
};

struct Schedule {
  std::size_t chunks = 1;
  std::size_t micro_batches = 1;
  std::vector<std::vector<Pass>> passes{};  ///< [stages], in the order in which the stage runs them
  /// The activations that a stage keeps at most: pairs of chunk and micro-batch between F and the
  /// end of B or W. [stages]
  std::vector<std::size_t> in_flight{};
  /// A chunk is at most so many micro-batches ahead of a chunk that reads from it, for each stage
  /// between them. 0: only `passes` says how far.
  std::uint32_t ahead = 0;
};

/// One schedule that `--pipeline` knows.
struct ScheduleEntry {
  std::string_view name;     ///< as written after --pipeline
  std::string_view summary;  ///< one line for people
  std::string_view source;   ///< paper
  Layout layout = Layout::line;
  bool training = true;  ///< else forward ops only
  bool splits = false;   ///< it has W passes
  bool flushes = true;   ///< the last update waits for all passes: the next step begins afterwards
  /// Versions of the weights that stage s of p keeps.
  std::size_t (*versions)(std::size_t stage, std::size_t stages);
  /// Throws InputError if there is no such schedule for the shape.
  Schedule (*make)(const Shape&);
};
std::span<const ScheduleEntry> schedules();
const ScheduleEntry* find_schedule(std::string_view name);  ///< null if there is none

/// The same schedule with an R before each B.
Schedule with_recompute(Schedule schedule);

/// The activations that each stage keeps at most, counted from the passes. [stages]
std::vector<std::size_t> most_in_flight(const Schedule& schedule);

/// The mistake in a schedule for `layout`; nothing if the schedule can run. Checked: every chunk
/// has F, B and, if any has, W of every micro-batch once, in this order, on the stage that the
/// layout names. No stage waits for ever: F waits for the F of the chunk before, B for the B of the
/// chunk behind. No stage keeps more than `in_flight`.
std::optional<std::string> mistake_in(const Schedule& schedule, Layout layout, bool training);

}  // namespace baechi::pipeline
