/// Tables of components (placers, transforms, generators, ...): their entries have a `name`.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/names.h"
#include "sim/options.h"

namespace baechi {

/// "no placer 'm_eft' (did you mean 'm_etf'?) (placers: m_topo, m_etf)"; `what`: "placer".
std::string no_such(std::string_view what, std::string_view name,
                    std::span<const std::string> known);

/// "'gpw' is not one of gpu, cpu (did you mean 'gpu'?)".
std::string not_one_of(std::string_view got, std::span<const std::string> known);
/// not_one_of() for the words of an enum (sim/names.h).
template <class E>
std::string not_one_of(std::string_view got) {
  constexpr auto words = all_words<E>();
  return not_one_of(got, std::vector<std::string>(words.begin(), words.end()));
}

std::vector<std::string> entry_names(const auto& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

/// The entry called `name`. Throws InputError with no_such()'s message if there is none. `where`:
/// the name's place in a file, or "".
const auto& find_entry(const auto& entries, std::string_view what, std::string_view name,
                       const std::string& where = {}) {
  for (const auto& entry : entries)
    if (entry.name == name) return entry;
  throw InputError(at(where) + no_such(what, name, entry_names(entries)));
}

}  // namespace baechi
