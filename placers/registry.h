/// Every placer by its YAML name. Adding a placer is one file, one row of the table in registry.cpp
/// and one line of CMake.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "placers/placer.h"
#include "sim/options.h"

namespace baechi {

struct PlacerEntry {
  std::string_view name;     ///< as written in a scenario
  std::string_view summary;  ///< one line for `list placers`
  std::string_view source;   ///< where the algorithm is described
  std::unique_ptr<Placer> (*make)(Options&);
  /// Up to so many ops it takes two seconds or so at most, without options: there a
  /// search begins with its answer. Measured on layered graphs, and on GNMT of 18,000 ops.
  std::size_t quick_ops = 0;
};
std::span<const PlacerEntry> placers();

/// A placer of a row of the table, with what all of them have: the option `adjust`.
std::unique_ptr<Placer> make(const PlacerEntry& entry, Options& options);

/// `name` as in the table, or exec:PATH. Throws InputError on an unknown name or option, or a bad
/// value: all of them at once. `where` is the place of the name, for messages.
std::unique_ptr<Placer> make_placer(std::string_view name, Options options,
                                    const std::string& where = {});

}  // namespace baechi
