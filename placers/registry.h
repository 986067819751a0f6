/// Every placer by its YAML name. Adding a placer is one file, one row of the table in registry.cpp
/// and one line of CMake.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "placers/placer.h"
#include "sim/names.h"
#include "sim/options.h"

namespace baechi {

/// What a placer counts against the memory of a device. Whether a step really fits is the engine's
/// verdict.
enum class CountedMemory : std::uint8_t {
  ignored,     ///< nothing: out of memory is then a result of the run
  weights,     ///< the persistent bytes of the ops on each accelerator; host cores have no limit
  floor,       ///< persistent bytes of all ops, and outputs and workspace of the largest op
  footprints,  ///< persistent bytes, outputs and workspace of all ops: nothing is freed
  planned,     ///< what is live at each time of the schedule that the placer plans
  objective,   ///< what the objective counts that the placer makes small
  own,         ///< the program's own affair
};
constexpr auto names_of(CountedMemory) {
  return std::to_array<Named<CountedMemory>>(
      {{CountedMemory::ignored, "ignored", "ignores memory"},
       {CountedMemory::weights, "weights", "counts weights only"},
       {CountedMemory::floor, "floor", "counts weights and the largest op"},
       {CountedMemory::footprints, "footprints", "counts footprints, frees nothing"},
       {CountedMemory::planned, "planned", "plans memory over time"},
       {CountedMemory::objective, "objective", "counts memory as its objective does"},
       {CountedMemory::own, "own", "counts memory as the program likes"}});
}

struct PlacerEntry {
  std::string_view name;     ///< as written in a scenario
  std::string_view summary;  ///< one line for `list placers`
  std::string_view source;   ///< where the algorithm is described
  std::unique_ptr<Placer> (*make)(Options&);
  CountedMemory memory;
  /// Up to so many ops it takes two seconds or so at most, without options: there a search begins
  /// with its answer. Measured on layered graphs, and on GNMT of 18,000 ops.
  std::size_t quick_ops = 0;
  std::string_view needs{};  ///< the option without which it cannot be made; "" if it needs none
};
std::span<const PlacerEntry> placers();

/// The entry called `name`, or that of exec for exec:PATH. Throws InputError on an unknown name.
/// `where` is the place of the name, for messages.
const PlacerEntry& placer_entry(std::string_view name, const std::string& where = {});

/// A placer of a row of the table, with what all of them have: the option `adjust`.
std::unique_ptr<Placer> make(const PlacerEntry& entry, Options& options);

/// `name` as in the table, or exec:PATH. Throws InputError on an unknown name or option, or a bad
/// value: all of them at once. `where` is the place of the name, for messages.
std::unique_ptr<Placer> make_placer(std::string_view name, Options options,
                                    const std::string& where = {});

}  // namespace baechi
