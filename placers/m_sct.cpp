#include <memory>
#include <optional>

#include "placers/interface/placer.h"
#include "placers/list/schedule.h"
#include "placers/original/original.h"
#include "placers/sct/favourite_child.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// m-SCT: as m-ETF, but a device waits for the favourite child of the op that it has just run
/// (list/schedule.h). Favourite children come from a linear program (sct/favourite_child.h) that
/// ignores devices, memory and groups. Source: Baechi (SoCC'20), section 2.2.3.
class MSct final : public Placer {
 public:
  explicit MSct(Options& o) : options_(list::read_place_options(o)) {
    threshold_ = o.get("threshold", options_.variant == Variant::pytorch ? 0.5 : 0.1,
                       "an edge is a favourite if the program's x is at most this (pytorch: 0.5)");
    if (threshold_ > 1.0) o.mistake("threshold", "is over 1: then every edge would be a favourite");
    compat_ = original::read_options(o, {.algorithm = original::Algorithm::m_sct,
                                         .variant = options_.variant,
                                         .reserve = options_.reserve,
                                         .threshold = threshold_});
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (compat_) return original::place(p, *compat_);
    list::PlaceOptions options = options_;
    const SctFavourites found = favourites_of(p, threshold_, solutions_);
    options.favourite = found.of;
    Placement placement = list::place(p, options, "m_sct");
    placement.facts["lp_us"] = found.program / 1e3;
    placement.facts["favourites"] = static_cast<double>(found.count);
    return placement;
  }

 private:
  list::PlaceOptions options_;
  double threshold_;
  std::optional<original::PlacerOptions> compat_;
  mutable SctSolutions solutions_;
};

}  // namespace

std::unique_ptr<Placer> make_m_sct(Options& o) {
  return std::make_unique<MSct>(o);
}

}  // namespace baechi
