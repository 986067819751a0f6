/// The message of an exception.
#pragma once
#include <string>
#include <string_view>

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

/// `text` with every occurrence of `part` removed.
inline std::string without(std::string text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
    text.erase(at, part.size());
  return text;
}

}  // namespace baechi::testing
