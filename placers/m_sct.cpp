#include "placers/list/schedule.h"
#include "placers/original/original.h"

namespace baechi {

/// m-SCT: as m-ETF, but a device waits for the favourite child of the op that it has just run
/// (list/schedule.h). Favourite children come from a linear program (sct/favourite_child.h) that
/// ignores devices, memory and groups. Source: Baechi (SoCC'20), section 2.2.3.
std::unique_ptr<Placer> make_m_sct(Options& o) {
  const list::PlaceOptions options = list::read_place_options(o);
  const double threshold =
      o.get("threshold", options.variant == Variant::pytorch ? 0.5 : 0.1,
            "an edge is a favourite if the program's x is at most this (pytorch: 0.5)");
  if (threshold > 1.0) o.mistake("threshold", "is over 1: then every edge would be a favourite");
  const auto compat = original::read_options(o, {.algorithm = original::Algorithm::m_sct,
                                                 .variant = options.variant,
                                                 .reserve = options.reserve,
                                                 .threshold = threshold});
  return placer_of([options, threshold, compat, solutions = std::make_shared<SctSolutions>()](
                       const Problem& p, std::uint64_t /*seed*/) {
    if (compat) return original::place(p, *compat);
    const SctFavourites found = favourites_of(p, threshold, *solutions);
    list::PlaceOptions favouring = options;
    favouring.favourite = found.of;
    Placement placement = list::place(p, favouring, "m_sct");
    placement.facts["lp_us"] = found.program / 1e3;
    placement.facts["favourites"] = static_cast<double>(found.count);
    return placement;
  });
}

}  // namespace baechi
