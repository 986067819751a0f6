/// What a mistake is answered with.
#pragma once
#include <string>
#include <string_view>

namespace baechi::testing {

/// What the `Error` that `call` throws says; "no error" if it throws none.
template <class Error>
std::string message(auto&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// `text` without any `part`.
inline std::string without(std::string text, std::string_view part) {
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;)
    text.erase(at, part.size());
  return text;
}

}  // namespace baechi::testing
