/// The message of an exception.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace baechi::testing {

/// The what() of the `Error` that `call` throws; "no error" if `call` throws none.
template <class Error>
std::string message(auto&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// Checks that the call throws an InputError with this message, or one that fits a
/// doctest::Contains.
#define CHECK_REFUSED(call, text) CHECK_THROWS_WITH_AS(call, text, baechi::InputError)

inline bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The lines of a text, or its parts that end with another character.
inline std::vector<std::string> lines_of(const std::string& text, char end = '\n') {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line, end);) lines.push_back(line);
  return lines;
}

/// `text` with every occurrence of `part` removed.
inline std::string without(std::string text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
    text.erase(at, part.size());
  return text;
}

}  // namespace baechi::testing
