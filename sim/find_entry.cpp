#include "sim/find_entry.h"

#include <fmt/format.h>

#include "sim/error.h"

namespace baechi {

std::string not_one_of(std::string_view got, std::span<const std::string> known) {
  return fmt::format("'{}' is not one of {}{}", got, fmt::join(known, ", "),
                     did_you_mean(got, known));
}

std::string no_such(std::string_view what, std::string_view name,
                    std::span<const std::string> known) {
  return fmt::format("no {} '{}'{} ({}s: {})", what, name, did_you_mean(name, known), what,
                     fmt::join(known, ", "));
}

}  // namespace baechi
