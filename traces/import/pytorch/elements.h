#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace baechi::pytorch {

/// The elements of a storage that a view covers: sorted, disjoint ranges [first, second).
using Elements = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The elements of a view with these sizes and strides (in elements) that begins at `offset`.
/// nullopt if they form more than a million ranges, or if sizes and strides are invalid.
std::optional<Elements> strided(std::int64_t offset, std::span<const std::int64_t> sizes,
                                std::span<const std::int64_t> strides);

std::int64_t size(const Elements& elements);
bool overlap(const Elements& a, const Elements& b);
bool within(const Elements& inner, const Elements& outer);

}  // namespace baechi::pytorch
