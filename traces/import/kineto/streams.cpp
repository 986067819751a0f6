#include "traces/import/kineto/streams.h"

#include <algorithm>

namespace baechi::kineto {

std::vector<std::pair<Duration, std::size_t>> Streams::ended(Duration at, const Stream* but) const {
  std::vector<std::pair<Duration, std::size_t>> found;
  for (const auto& [key, stream] : streams_) {
    if (&stream == but) continue;
    const auto after =
        std::ranges::upper_bound(stream.ran, at, {}, [](const auto& ran) { return ran.first; });
    if (after != stream.ran.begin()) found.push_back(*(after - 1));
  }
  return found;
}

}  // namespace baechi::kineto
