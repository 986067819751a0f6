#include "traces/import/pytorch/elements.h"

#include <algorithm>

namespace baechi::pytorch {

std::optional<Elements> strided(std::int64_t offset, std::span<const std::int64_t> sizes,
                                std::span<const std::int64_t> strides) {
  constexpr std::int64_t most_ranges = 1 << 20;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::vector<std::pair<std::int64_t, std::int64_t>> sides;  // stride, size
  if (sizes.size() != strides.size()) return std::nullopt;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = sizes[i], stride = strides[i];
    if (size < 1 || size > most || stride < 0 || stride > most) return std::nullopt;
    if (size > 1 && stride > 0) sides.emplace_back(stride, size);
  }
  std::ranges::sort(sides);
  std::int64_t run = 1;  // length of a range of adjacent elements
  Elements ranges{{offset, offset + 1}};
  for (const auto& [stride, size] : sides) {
    if (stride == run && ranges.size() == 1) {
      run *= size;
      if (run > most) return std::nullopt;
      ranges.front().second = offset + run;
      continue;
    }
    if (static_cast<std::int64_t>(ranges.size()) > most_ranges / size) return std::nullopt;
    Elements more;
    for (std::int64_t i = 0; i < size; ++i)
      for (const auto& [first, last] : ranges)
        more.emplace_back(first + i * stride, last + i * stride);
    std::ranges::sort(more);
    ranges.clear();
    for (const auto& range : more) {
      if (!ranges.empty() && range.first <= ranges.back().second)
        ranges.back().second = std::max(ranges.back().second, range.second);
      else
        ranges.push_back(range);
    }
    if (ranges.back().second > most) return std::nullopt;
  }
  return ranges;
}

std::int64_t size(const Elements& elements) {
  std::int64_t n = 0;
  for (const auto& [first, last] : elements) n += last - first;
  return n;
}

bool overlap(const Elements& a, const Elements& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (std::max(a[i].first, b[j].first) < std::min(a[i].second, b[j].second)) return true;
    if (a[i].second < b[j].second)
      ++i;
    else
      ++j;
  }
  return false;
}

bool within(const Elements& inner, const Elements& outer) {
  std::size_t j = 0;
  for (const auto& [first, last] : inner) {
    while (j < outer.size() && outer[j].second < last) ++j;
    if (j == outer.size() || outer[j].first > first) return false;
  }
  return true;
}

}  // namespace baechi::pytorch
