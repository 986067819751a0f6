/// The words for the values of an enum: one table per enum, next to its definition.
#pragma once
#include <array>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

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
///     constexpr auto names_of(ReadyOrder) {
///       return std::to_array<Named<ReadyOrder>>({{ReadyOrder::fifo, "fifo", "by arrival"},
///                                                {ReadyOrder::program, "program", "by op id"}});
///     }
///
/// Where the words are the enumerators themselves: `return enumerators<Phase::update>();` with the
/// last value. To rename one is to change files and flags.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires { names_of(E{}); };

namespace enum_names {

/// "update" of Phase::update.
template <auto V>
constexpr std::string_view enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;  // "... [with auto V = baechi::Phase::update; ..."
  text.remove_prefix(text.find("V = "));
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}

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

/// The table of an enum whose words are its enumerators, up to `last`.
template <auto last>
constexpr auto enumerators() {
  using E = decltype(last);
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::to_array<Named<E>>(
        {{static_cast<E>(I), enum_names::enumerator<static_cast<E>(I)>()}...});
  }(std::make_index_sequence<static_cast<std::size_t>(last) + 1>{});
}

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
