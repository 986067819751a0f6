#include "sim/wildcard.h"

#include <optional>

namespace baechi {

bool Wildcard::matches(std::string_view text) const {
  std::size_t p = 0, t = 0;
  std::optional<std::size_t> star;  // position of the last '*' seen
  std::size_t run_end = 0;          // end in `text` of the run that it matches
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      run_end = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star) {
      p = *star + 1;
      t = ++run_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace baechi
