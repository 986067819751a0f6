/// The words for the values of an enum: one table per enum, next to its definition.
#pragma once
#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <type_traits>

namespace baechi {

/// A value of an enum and its word in files, flags and results.
template <class E>
struct Named {
  E value;
  std::string_view word;
  std::string_view meaning{};  ///< for help texts; "" where the word is clear
};

/// An enum with words. Its table has a row per value, in the order of the values:
///
///     constexpr auto names_of(Phase) {
///       return std::to_array<Named<Phase>>({{Phase::forward, "forward"},
///                                           {Phase::backward, "backward"},
///                                           {Phase::update, "update"}});
///     }
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires { names_of(E{}); };

namespace enum_names {

template <NamedEnum E>
inline constexpr auto table = names_of(E{});

/// True if the enum has no enumerator `V`: compilers print an unnamed value as a cast.
template <auto V>
constexpr bool is_no_value() {
  return std::string_view(__PRETTY_FUNCTION__).find("V = (") != std::string_view::npos;
}

template <NamedEnum E>
constexpr bool in_order() {
  for (std::size_t i = 0; i < table<E>.size(); ++i)
    if (static_cast<std::size_t>(table<E>[i].value) != i || table<E>[i].word.empty()) return false;
  return true;
}

/// The row of `value`. A table that is not as NamedEnum says does not compile.
template <NamedEnum E>
constexpr const Named<E>& row(E value) {
  static_assert(in_order<E>(), "names_of() has its rows in the order of the values");
  static_assert(is_no_value<static_cast<E>(table<E>.size())>(), "names_of() misses a value");
  const auto i = static_cast<std::size_t>(value);
  if (i >= table<E>.size()) std::abort();
  return table<E>[i];
}

}  // namespace enum_names

template <NamedEnum E>
constexpr std::string_view to_text(E value) {
  return enum_names::row(value).word;
}

template <NamedEnum E>
constexpr std::string_view meaning(E value) {
  return enum_names::row(value).meaning;
}

/// All values, in their order.
template <NamedEnum E>
constexpr auto all() {
  std::array<E, enum_names::table<E>.size()> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = enum_names::table<E>[i].value;
  return values;
}

/// The words of all values, in the order of the values.
template <NamedEnum E>
constexpr auto all_words() {
  std::array<std::string_view, enum_names::table<E>.size()> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = enum_names::table<E>[i].word;
  return words;
}

/// The value whose word is `text`; nothing if no value has this word.
template <NamedEnum E>
constexpr std::optional<E> parse(std::string_view text) {
  for (const Named<E>& n : enum_names::table<E>)
    if (n.word == text) return n.value;
  return std::nullopt;
}

}  // namespace baechi
