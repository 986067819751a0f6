#include "traces/untimed.h"

#include <fmt/format.h>

#include "sim/error.h"

namespace baechi {

void Untimed::add(std::string_view kind, std::string_view op, std::string_view why) {
  if (++ops == 1) first = fmt::format("{} '{}': {}", kind, op, why);
}

void Untimed::refuse(std::string_view source, std::size_t all) const {
  if (ops == 0 || accepted) return;
  throw InputError(fmt::format(
      "{}: {} of {} ops have neither a time nor known work, so the step time would be too short; "
      "the first is {}; give {}, or count these ops as zero: option untimed=zero of the importer",
      source, ops, all, first, instead));
}

Untimed no_untimed_ops(Options& options, std::string_view instead) {
  const std::string how =
      options.get("untimed", {"refuse", "zero"},
                  "ops without a time and without known work. refuse: an error when the graph is "
                  "placed or converted; zero: they take no time");
  return {.instead = std::string(instead), .accepted = how == "zero"};
}

}  // namespace baechi
