/// Patterns with wildcards, as scenarios and rules on op names write them.
#pragma once
#include <string_view>

namespace baechi {

/// '*' matches any run of characters, also an empty one, and '?' any one character.
struct Wildcard {
  std::string_view pattern;

  /// Whether the pattern matches all of `text`.
  bool matches(std::string_view text) const;
};

}  // namespace baechi
