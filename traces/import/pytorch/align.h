/// Approximate search of a sequence of names in a longer one, with names missing from either.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace baechi::pytorch {

/// [sequence] The position of each name; nullopt if it is missing.
using Alignment = std::vector<std::optional<std::size_t>>;

/// The alignments of `calls` in `events` with the fewest gaps and, among these, the most matches;
/// in order, at most the last 64; none if there are over `most_gaps` gaps. A gap is a call without
/// an event, or an event without a call between the first and the last matched event. Ties: an
/// event without a call comes first. Method: Myers, An O(ND) difference algorithm and its
/// variations (1986), with free ends in `events`. Time O(events x gaps), memory O(events + gaps^2).
std::vector<Alignment> align(std::span<const std::uint32_t> calls,
                             std::span<const std::uint32_t> events, std::size_t most_gaps);

}  // namespace baechi::pytorch
