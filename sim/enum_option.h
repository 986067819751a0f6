/// Options whose values are an enum with words (sim/names.h).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/names.h"
#include "sim/options.h"

namespace baechi {

/// The value of option `key`, given by its word; `fallback` if none is given.
template <NamedEnum E>
E read_enum(Options& options, const std::string& key, E fallback, std::string_view help) {
  std::vector<std::string> allowed{std::string(to_text(fallback))};
  for (const E e : all<E>())
    if (e != fallback) allowed.emplace_back(to_text(e));
  return *parse<E>(options.get(key, allowed, help));
}

/// As read_enum(), with one more word, `none`: the default, which means no value.
template <NamedEnum E>
std::optional<E> read_enum_unless(Options& options, const std::string& key, std::string_view none,
                                  std::string_view help) {
  std::vector<std::string> allowed{std::string(none)};
  for (const std::string_view word : all_words<E>()) allowed.emplace_back(word);
  return parse<E>(options.get(key, allowed, help));
}

}  // namespace baechi
