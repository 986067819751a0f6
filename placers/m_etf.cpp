#include "placers/list/schedule.h"
#include "placers/original/original.h"

namespace baechi {

/// m-ETF: of all pairs of a ready op and a device with memory for it, schedules next the pair with
/// the earliest start (list/schedule.h). Source: Baechi (SoCC'20), section 2.2.2.
std::unique_ptr<Placer> make_m_etf(Options& o) {
  const list::PlaceOptions options = list::read_place_options(o);
  const auto compat = original::read_options(o, {.algorithm = original::Algorithm::m_etf,
                                                 .variant = options.variant,
                                                 .reserve = options.reserve});
  return placer_of([options, compat](const Problem& p, std::uint64_t /*seed*/) {
    return compat ? original::place(p, *compat) : list::place(p, options, "m_etf");
  });
}

}  // namespace baechi
