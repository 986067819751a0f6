/// The table of all placers by their YAML names. A new placer takes one file, one row of the table
/// in registry.cpp and one line of CMake.
#pragma once

#include "placers/interface/placer.h"

namespace baechi {

/// What a placer counts against the memory of a device. Only the engine decides whether a step
/// fits.
enum class CountedMemory : std::uint8_t {
  ignored,     ///< nothing: the run may then end out of memory
  weights,     ///< the persistent bytes of the ops on each accelerator; host cores have no limit
  floor,       ///< persistent bytes of all ops + outputs and workspace of the largest op
  footprints,  ///< persistent bytes, outputs and workspace of all ops, never freed
  planned,     ///< what is live at each time of the placer's planned schedule
  objective,   ///< what the minimised objective counts
  own,         ///< what the external program counts
};
constexpr auto names_of(CountedMemory) {
  return std::to_array<Named<CountedMemory>>(
      {{CountedMemory::ignored, "ignored", "ignores memory"},
       {CountedMemory::weights, "weights", "counts weights only"},
       {CountedMemory::floor, "floor", "counts weights and the largest op"},
       {CountedMemory::footprints, "footprints", "counts footprints, frees nothing"},
       {CountedMemory::planned, "planned", "plans memory over time"},
       {CountedMemory::objective, "objective", "counts memory as its objective does"},
       {CountedMemory::own, "own", "counts memory as the program does"}});
}

/// `MakePlacer make_m_etf;` declares the function that makes m_etf.
using MakePlacer = std::unique_ptr<Placer>(Options&);
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): ordered for readers
struct PlacerEntry {
  std::string_view name;     ///< as written in a scenario
  std::string_view summary;  ///< one line for `list placers`
  std::string_view source;   ///< where the algorithm is described
  MakePlacer* make;
  CountedMemory memory;
  /// The largest number of ops for which the placer, without options, takes at most about two
  /// seconds. A search starts from the placements of the placers that are quick on its graph.
  /// Measured on layered graphs, and on GNMT of 18,000 ops.
  std::size_t quick_ops = 0;
  std::string_view needs{};  ///< the one option that make() requires; "" for none
  /// Refuses graphs with lanes or collectives, because its proofs hold only for devices that run
  /// one op at a time. Other placers treat all lanes as one; the engine simulates them all.
  bool one_lane = false;
  bool fallback = false;        ///< the option `fallback`, which all placers have, is on by default
  bool any_collective = false;  ///< else refuses collectives of several members
  bool homes = false;  ///< decides itself which weights wait on devices that do not compute
};
std::span<const PlacerEntry> placers();

/// The entry called `name`, or the entry of exec if `name` is exec:PATH. Throws InputError on an
/// unknown name. `where` says in messages where the name is written.
const PlacerEntry& placer_entry(std::string_view name, std::string_view where = {});

/// Why a placer of `entry` refuses `graph`; nothing if it does not.
std::optional<std::string> refusal(const PlacerEntry& entry, const OpGraph& graph);

inline constexpr const char* fallback_help =
    "if no placement found fits, take one of another algorithm; placed_by names it";

/// Makes the placer of `entry`, with the options that all placers have: `adjust`, `fallback`,
/// `offload` and `prefetch`.
std::unique_ptr<Placer> make(const PlacerEntry& entry, Options& options);

/// Makes the placer called `name`: a name of the table, or exec:PATH. Throws one InputError with
/// all mistakes: an unknown name, unknown options, bad values. `where` says in messages where the
/// name is written.
std::unique_ptr<Placer> make_placer(std::string_view name, Options options,
                                    const std::string& where = {});

/// The same with default options.
std::unique_ptr<Placer> make_placer(std::string_view name);

}  // namespace baechi
