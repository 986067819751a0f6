/// Sets of elements of a storage: what a view shows of it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace baechi::pytorch {

/// Sorted, disjoint ranges [first, second).
using Elements = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Those of a view of these sizes and strides that begins at `offset`. Nothing if they lie in more
/// than a million ranges, or no view is so.
std::optional<Elements> strided(std::int64_t offset, std::span<const std::int64_t> sizes,
                                std::span<const std::int64_t> strides);

std::int64_t size(const Elements& elements);
bool overlap(const Elements& a, const Elements& b);
bool within(const Elements& inner, const Elements& outer);

}  // namespace baechi::pytorch
