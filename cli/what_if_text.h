/// The rows of `baechi what-if`, and how they are printed.
#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/explain/causes.h"
#include "sim/names.h"

namespace baechi {

/// Where the time of a critical path goes.
enum class PathTime : std::uint8_t { compute, host, collective, transfer, waiting };
constexpr auto names_of(PathTime) {
  return std::to_array<Named<PathTime>>(
      {{PathTime::compute, "compute", "ops of the devices"},
       {PathTime::host, "host", "ops in lanes of the host"},
       {PathTime::collective, "collective", ""},
       {PathTime::transfer, "transfer", "between devices, and copies to and from the host"},
       {PathTime::waiting, "waiting", "for a channel, or for a device that runs nothing"}});
}
inline constexpr std::size_t num_path_times = 5;
using PathTimes = std::array<Duration, num_path_times>;

/// What the parts of a step's critical path add up to. Where an op waits for its turn behind
/// another, the chain of the other counts instead.
PathTimes path_times(const Causes& causes, const OpGraph& graph);

/// One prediction.
struct WhatIfRow {
  std::string name;          ///< "base", of a file of rules, or "all together"
  std::string infeasible{};  ///< why there is no placement; "": there is one
  std::string refused{};     ///< why the rules do not go together; "": they do
  Duration step{};           ///< without memory limits, if it does not fit
  Bytes peak{};              ///< of the device that is the fullest, by the share of its memory
  std::string device{};      ///< its name
  Bytes limit{};             ///< its memory
  bool fits = true;          ///< no device runs out of memory
  PathTimes path{};          ///< adds up to `step`
};

/// Formats. The first row is the base, which others are compared with.
std::string what_if_table(const std::vector<WhatIfRow>& rows);
std::string what_if_csv(const std::vector<WhatIfRow>& rows);
nlohmann::ordered_json what_if_json(const std::vector<WhatIfRow>& rows);

}  // namespace baechi
