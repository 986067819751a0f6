/// What every timeline file promises, whatever the step.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace baechi::testing {

/// Checks that processes and threads are numbers and have names, and that no two slices of a track
/// overlap. Returns the sum of the slices of ops by device, in ns.
inline std::map<std::int64_t, std::int64_t> check_timeline(std::string_view text) {
  using Json = nlohmann::json;
  const Json json = Json::parse(text);
  const auto ns = [](const Json& us) {
    return static_cast<std::int64_t>(std::llround(us.get<double>() * 1e3));
  };

  using Track = std::pair<std::int64_t, std::int64_t>;  // pid, tid
  std::set<std::int64_t> processes;
  std::set<Track> threads;
  std::map<Track, std::vector<std::pair<std::int64_t, std::int64_t>>> slices;  // start, end
  std::map<std::int64_t, std::int64_t> computing;
  for (const Json& event : json.at("traceEvents")) {
    CAPTURE(event.dump());
    const std::string phase = event.at("ph");
    REQUIRE(event.at("pid").is_number_integer());
    const std::int64_t pid = event.at("pid");
    REQUIRE(pid > 0);
    REQUIRE(event.at("args").is_object());
    if (phase == "C") continue;
    REQUIRE(event.at("tid").is_number_integer());
    const Track track{pid, event.at("tid")};
    if (event.at("name") == "process_name") CHECK(processes.insert(pid).second);
    if (event.at("name") == "thread_name") CHECK(threads.insert(track).second);
    if (phase != "X") continue;
    const std::int64_t start = ns(event.at("ts")), length = ns(event.at("dur"));
    CHECK(threads.contains(track));
    CHECK(length >= 0);
    slices[track].emplace_back(start, start + length);
    if (event.at("cat") == "op") computing[pid - 1] += length;
  }
  for (auto& [track, spans] : slices) {
    CHECK(processes.contains(track.first));
    std::ranges::sort(spans);
    for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i - 1].second <= spans[i].first);
  }
  return computing;
}

}  // namespace baechi::testing
