#include "placers/list/attempts.h"

#include <fmt/format.h>

#include <span>

#include "placers/feasible.h"
#include "sim/error.h"

namespace baechi::list {
namespace {

/// For the detail of a placement.
std::string described(const MemoryMargin& margin) {
  if (margin.keep_all) return "nothing freed";
  std::string text = fmt::format("{:.0f} % of the memory", margin.memory_share * 100);
  if (margin.spare > 0)
    text += fmt::format(", {} x the largest member's need kept free", margin.spare);
  return text;
}

std::span<const MemoryMargin> margins(Variant variant, bool fallback) {
  static constexpr MemoryMargin all[] = {
      {}, {.spare = 1}, {.spare = 2}, {0.9, 2}, {.keep_all = true}};
  const std::span<const MemoryMargin> any = all;
  if (variant == Variant::pytorch) return any.last(1);
  return fallback ? any : any.first(1);
}

}  // namespace

Placement place(const Problem& problem, const PlaceOptions& options, std::string_view name) {
  const std::span<const MemoryMargin> tried = margins(options.variant, options.fallback);
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
            fmt::format("fallback: placed with {}; at first: {}", described(margin), first_failure);
      }
      placement->facts["attempts"] = attempts;
      return *std::move(placement);
    }
    if (first_failure.empty()) first_failure = failure;
  }
  if (tried.size() == 1) throw InfeasibleError(fmt::format("{}: {}", name, first_failure));
  const std::string why = first_failure + "; nor in a more cautious way";
  if (!options.last_resort) throw InfeasibleError(fmt::format("{}: {}", name, why));
  // Then the first attempt was all that m_etf does without its fallback.
  static constexpr std::string_view m_etf[] = {"m_etf"};
  const bool is_m_etf = options.favourite.empty() && !options.reserve;
  Placement placement = last_resort(problem, name, why, std::span(m_etf).first(is_m_etf ? 1 : 0));
  placement.facts["attempts"] = attempts + 1;
  return placement;
}

}  // namespace baechi::list
