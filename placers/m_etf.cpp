#include <memory>
#include <optional>

#include "placers/interface/placer.h"
#include "placers/list/schedule.h"
#include "placers/original/original.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// m-ETF: of all pairs of a ready op and a device with memory for it, schedules next the pair with
/// the earliest start (list/schedule.h). Source: Baechi (SoCC'20), section 2.2.2.
class MEtf final : public Placer {
 public:
  explicit MEtf(Options& o) : options_(list::read_place_options(o)) {
    compat_ = original::read_options(o, {.algorithm = original::Algorithm::m_etf,
                                         .variant = options_.variant,
                                         .reserve = options_.reserve});
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (compat_) return original::place(p, *compat_);
    return list::place(p, options_, "m_etf");
  }

 private:
  list::PlaceOptions options_;
  std::optional<original::PlacerOptions> compat_;
};

}  // namespace

std::unique_ptr<Placer> make_m_etf(Options& o) {
  return std::make_unique<MEtf>(o);
}

}  // namespace baechi
