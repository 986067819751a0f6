/// Fits: the numbers of our models, made anew of the published measurements.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "sim/watch.h"

namespace baechi::validate {

using MakeFit = std::string(const std::string& folder, const Watch& watch);
/// A fit. A new one takes one file and one row of the table in registry.cpp.
struct FitEntry {
  std::string_view name;     ///< as on the command line
  std::string_view summary;  ///< one line: which numbers
  std::string_view data;     ///< the files it reads, below the folder
  /// The fitted numbers as YAML, as scenarios/devices.yaml has them: the same for the same files.
  /// Throws InputError if a file is missing or wrong. `watch` counts the searches of a long fit.
  MakeFit* fit;
};
std::span<const FitEntry> fits();

}  // namespace baechi::validate
