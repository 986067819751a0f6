#include "sim/transform/what_if/amount.h"

#include <cmath>

namespace baechi::what_if {

Bytes Amount::of(Bytes whole) const {
  return fixed +
         Bytes{static_cast<std::int64_t>(std::ceil(share * static_cast<double>(whole.count)))};
}

std::optional<Amount> read_amount(Options& o, const std::string& key, std::string_view help) {
  constexpr double most = 1000.0;
  const std::string text = o.get(key, "", help);
  if (text.empty()) return std::nullopt;
  if (text.ends_with('x')) {
    const auto share = parse_number<double>(std::string_view(text).substr(0, text.size() - 1));
    if (share && *share >= 0.0 && *share <= most) return Amount{.share = *share};
  } else if (const auto bytes = parse_bytes(text)) {
    return Amount{.fixed = *bytes};
  }
  o.mistake(key,
            fmt::format("'{}' is neither a size such as '4 MB' nor a share such as '0.25x'", text));
  return std::nullopt;
}

}  // namespace baechi::what_if
