#include "placers/exact/incumbent.h"

#include <fmt/format.h>

namespace baechi::exact {

double Incumbent::gap() const {
  if (value <= bound) return 0.0;
  return 1.0 - static_cast<double>(bound.count()) / static_cast<double>(value.count());
}

Placement Incumbent::report(const char* value_fact, std::string_view what) && {
  placement.facts = {{"start_us", start == unknown ? -1.0 : to_us(start)},
                     {value_fact, to_us(value)},
                     {"bound_us", to_us(bound)},
                     {"gap", gap()},
                     {"nodes", static_cast<double>(nodes)}};
  placement.detail = value <= bound ? fmt::format("the best {}", what)
                                    : fmt::format("no {} is below {}, {:.1f} % less", what,
                                                  to_text(bound), 100.0 * gap());
  return std::move(placement);
}

}  // namespace baechi::exact
