/// Patterns with wildcards, as scenarios and rules on op names write them.
#pragma once
#include <string_view>

namespace baechi {

/// '*' stands for any run of letters, also none, and '?' for any one letter.
struct Wildcard {
  std::string_view pattern;

  /// Whether the pattern describes all of `text`. Linear in both, but for going back to the last
  /// '*'.
  bool matches(std::string_view text) const;
};

}  // namespace baechi
