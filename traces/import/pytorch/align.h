/// Finds a sequence of names inside a longer one although a few names are missing from either.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace baechi::pytorch {

/// One way to find a sequence: [sequence] the position of each name; nothing where it is missing.
using Alignment = std::vector<std::optional<std::size_t>>;

/// The places in `events` where `calls` is found with the fewest gaps, and among them the places
/// with the most calls found, in order, at most the last 64. A gap is a call without an event, or
/// an event without a call between the first and the last event of the place. Nothing if there are
/// more than `most_gaps`. If several first gaps are possible, the event without a call comes first.
/// Method: Myers, An O(ND) difference algorithm and its variations (1986), with every beginning and
/// every end in `events` free. Takes time in O(events x gaps), memory in O(events + gaps^2).
std::vector<Alignment> align(std::span<const std::uint32_t> calls,
                             std::span<const std::uint32_t> events, std::size_t most_gaps);

}  // namespace baechi::pytorch
