#include "placers/list/attempts.h"

#include <fmt/format.h>

#include <span>

#include "placers/interface/placer.h"
#include "sim/error.h"

namespace baechi::list {
namespace {

/// The margin as text, for the detail of a placement.
std::string described(const MemoryMargin& margin) {
  if (margin.keep_all) return "nothing freed";
  std::string text = fmt::format("{:.0f} % of the memory", margin.memory_share * 100);
  if (margin.spare > 0)
    text += fmt::format(", {} x the largest member's need kept free", margin.spare);
  return text;
}

std::span<const MemoryMargin> margins(Variant variant) {
  static constexpr MemoryMargin all[] = {
      {}, {.spare = 1}, {.spare = 2}, {0.9, 2}, {.keep_all = true}};
  const std::span<const MemoryMargin> any = all;
  return variant == Variant::pytorch ? any.last(1) : any;
}

}  // namespace

PlaceOptions read_place_options(Options& options) {
  PlaceOptions read{.variant = read_variant(options)};
  read.reserve = options.get("reserve", false,
                             "keep room for a group's most demanding member until all are placed");
  return read;
}

Placement place(const Problem& problem, const PlaceOptions& options, std::string_view name) {
  const std::span<const MemoryMargin> tried = margins(options.variant);
  std::string first_failure;
  double attempts = 0;
  for (MemoryMargin margin : tried) {
    margin.reserve = options.reserve;
    ++attempts;
    auto [placement, failure, memory_ample] =
        schedule(problem, options.favourite, options.variant, margin);
    if (placement && !memory_ample) failure = out_of_memory(problem, *placement);
    if (failure.empty()) {
      if (!first_failure.empty()) {
        placement->detail =
            fmt::format("placed with {}; at first: {}", described(margin), first_failure);
      }
      placement->facts["attempts"] = attempts;
      return *std::move(placement);
    }
    if (first_failure.empty()) first_failure = failure;
  }
  throw InfeasibleError(fmt::format("{}: {}{}", name, first_failure,
                                    tried.size() > 1 ? "; nor with larger memory margins" : ""));
}

}  // namespace baechi::list
