#include "scenarios/read/findings.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace baechi {

// A line that begins with a space goes with the one before it.
void Findings::add(const std::string& lines) {
  std::size_t begin = 0;
  while (begin <= lines.size()) {
    std::size_t end = std::min(lines.find('\n', begin), lines.size());
    while (lines.substr(end, 2) == "\n ") end = std::min(lines.find('\n', end + 1), lines.size());
    std::string line = lines.substr(begin, end - begin);
    if (!line.empty() && seen_.insert(line).second) lines_.push_back(std::move(line));
    begin = end + 1;
  }
}

void Findings::pour_into(Mistakes& mistakes) const {
  struct Place {
    std::string_view path;
    std::size_t line = 0, column = 0;
  };
  // "path:line:column: ..."; all that is before the first such numbers is the path.
  const auto place = [](std::string_view message) {
    for (std::size_t colon = message.find(':'); colon != message.npos;
         colon = message.find(':', colon + 1)) {
      Place p{.path = message.substr(0, colon)};
      const char* last = message.data() + message.size();
      const auto [end, ec] = std::from_chars(message.data() + colon + 1, last, p.line);
      if (ec != std::errc{} || end == last || *end != ':') continue;
      if (std::from_chars(end + 1, last, p.column).ec == std::errc{}) return p;
    }
    return Place{};
  };
  std::vector<std::string> lines = lines_;
  std::ranges::stable_sort(lines, [&](const std::string& a, const std::string& b) {
    const Place p = place(a), q = place(b);
    return std::tie(p.path, p.line, p.column) < std::tie(q.path, q.line, q.column);
  });
  for (const std::string& line : lines) mistakes.add(line);
}

}  // namespace baechi
