#include "traces/import/kineto/streams.h"

#include <algorithm>

namespace baechi::kineto {

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
