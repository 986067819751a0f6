#include "traces/import/kineto/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace baechi::kineto {
namespace {

constexpr std::size_t most_of_a_kind = 20;  // a graph has at most 64 lanes

struct Use {
  Duration time{};
  std::size_t work = 0, nccl = 0, copies = 0;
};

}  // namespace

Lanes::Lanes(const Recording& recording, const Window& window) {
  const bool on_gpu = !recording.work.empty();
  std::map<std::size_t, std::size_t> calls;
  for (const Call& call : recording.calls) {
    std::size_t& n = calls[call.thread];
    if (window.holds(call.start) && (call.kind == CallKind::runtime || !on_gpu)) ++n;
  }
  std::vector<std::pair<std::size_t, std::size_t>> threads(calls.begin(), calls.end());
  std::ranges::stable_sort(threads, std::ranges::greater{}, [](const auto& t) { return t.second; });
  if (!threads.empty()) main_thread_ = threads.front().first;
  for (std::size_t i = 0; i < threads.size(); ++i)
    threads_[threads[i].first] =
        i == 0 ? (on_gpu ? "host" : "compute")
               : fmt::format("{} {}", on_gpu ? "host" : "thread", std::min(i + 1, most_of_a_kind));

  std::map<std::pair<std::int64_t, std::int64_t>, Use> use;
  for (const DeviceWork& work : recording.work) {
    Use& u = use[{work.device, work.stream}];
    u.time += work.duration;
    ++u.work;
    u.nccl += is_nccl(work) ? 1U : 0U;
    u.copies += work.kind == WorkKind::copy ? 1U : 0U;
  }
  std::map<std::int64_t, std::pair<std::int64_t, Duration>> busiest;  // by device
  for (const auto& [key, u] : use) {
    if (2 * u.nccl > u.work) continue;
    const auto [it, added] = busiest.emplace(key.first, std::pair(key.second, u.time));
    if (!added && u.time > it->second.second) it->second = {key.second, u.time};
  }
  std::set<std::pair<std::int64_t, std::string>> taken;
  std::size_t further = 0;
  for (const auto& [key, u] : use) {
    const auto [device, stream] = key;
    std::string name = 2 * u.nccl > u.work                  ? "comm"
                       : busiest.at(device).first == stream ? "compute"
                       : 2 * u.copies > u.work              ? "copy"
                                                            : fmt::format("stream {}", stream);
    if (!taken.emplace(device, name).second) name = fmt::format("{} {}", name, stream);
    if (name.find(' ') != std::string::npos && ++further > most_of_a_kind) name = "other streams";
    streams_[key] = name;
  }
}

std::optional<std::pair<Duration, std::size_t>> Stream::last_ended(Duration at) const {
  const auto after = std::ranges::upper_bound(ran, at, {}, [](const auto& r) { return r.first; });
  return after == ran.begin() ? std::nullopt : std::optional(*(after - 1));
}

std::vector<std::pair<Duration, std::size_t>> Streams::ended(Duration at, const Stream* but) const {
  std::vector<std::pair<Duration, std::size_t>> found;
  for (const auto& [key, stream] : streams_)
    if (const auto last = &stream == but ? std::nullopt : stream.last_ended(at))
      found.push_back(*last);
  return found;
}

}  // namespace baechi::kineto
