#include "sim/report/timeline.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace baechi {

std::vector<std::size_t> lanes(const std::vector<Span>& spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(spans[i].start, spans[i].end, i); });

  using Busy = std::pair<TimePoint, std::size_t>;  // until when, lane
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> idle;
  std::vector<std::size_t> lane(spans.size());
  std::size_t opened = 0;
  for (const std::size_t i : order) {
    for (; !busy.empty() && busy.top().first <= spans[i].start; busy.pop())
      idle.push(busy.top().second);
    if (idle.empty()) idle.push(opened++);
    lane[i] = idle.top();
    idle.pop();
    busy.emplace(spans[i].end, lane[i]);
  }
  return lane;
}

}  // namespace baechi
