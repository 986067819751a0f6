#include "sim/error.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <tuple>
#include <utility>

namespace baechi {
namespace {

/// Damerau-Levenshtein distance (optimal string alignment), case-insensitive.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before, above, row(b.size() + 1);  // the last three rows of the table
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
          {above[j] + 1, row[j - 1] + 1, above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0U : 1U)});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

void check_failed(std::string_view file, int line, const char* condition, const std::string& what) {
  std::string_view root = __FILE__;
  root.remove_suffix(std::string_view("sim/error.cpp").size());
  if (file.starts_with(root)) file.remove_prefix(root.size());
  while (file.starts_with("../")) file.remove_prefix(3);  // as a compiler cache names files
  fmt::print(stderr, "{}:{}: check failed: {}: {}\n", file, line, condition, what);
  std::abort();
}

void Mistakes::add(std::string_view messages) {
  std::size_t begin = 0;
  while (begin <= messages.size()) {
    std::size_t end = std::min(messages.find('\n', begin), messages.size());
    while (messages.substr(end, 2) == "\n ")
      end = std::min(messages.find('\n', end + 1), messages.size());
    std::string message(messages.substr(begin, end - begin));
    if (!message.empty() && seen_.insert(message).second) messages_.push_back(std::move(message));
    begin = end + 1;
  }
}

void Mistakes::sort_by_place() {
  struct Place {
    std::string_view path;
    std::size_t line = 0, column = 0;
  };
  // "path:line:column: ..."; the path may contain colons.
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
  std::ranges::stable_sort(messages_, [&](const std::string& a, const std::string& b) {
    const Place p = place(a), q = place(b);
    return std::tie(p.path, p.line, p.column) < std::tie(q.path, q.line, q.column);
  });
}

void Mistakes::throw_if_any() const {
  if (!messages_.empty()) throw InputError(fmt::format("{}", fmt::join(messages_, "\n")));
}

std::string did_you_mean(std::string_view got, std::span<const std::string> known) {
  constexpr std::size_t longest = 64;  // no known name is longer; bounds the cost of bad input
  if (got.size() > longest) return "";
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& name : known) {
    const std::size_t d = edit_distance(got, name);
    if (d <= std::max<std::size_t>(1, name.size() / 3) && (best == nullptr || d < best_distance)) {
      best = &name;
      best_distance = d;
    }
  }
  return best == nullptr ? "" : fmt::format(" (did you mean '{}'?)", *best);
}

std::vector<std::string> nearest(std::string_view got, std::span<const std::string> known,
                                 std::size_t most) {
  const auto plain = [](std::string_view text) {
    std::string letters;
    for (const char c : text.substr(0, 64))
      if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return letters;
  };
  const std::string wanted = plain(got);
  std::vector<std::pair<double, std::string>> ranked;
  for (const std::string& name : known) {
    const std::string letters = plain(name);
    const auto longest = static_cast<double>(std::max({letters.size(), wanted.size(), 1UL}));
    const bool inside = letters.find(wanted) != letters.npos || wanted.find(letters) != wanted.npos;
    ranked.emplace_back(
        static_cast<double>(edit_distance(wanted, letters)) / longest - (inside ? 1.0 : 0.0), name);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [distance, name] : ranked)
    if (names.size() < most) names.push_back(name);
  return names;
}

std::string not_one_of(std::string_view got, std::span<const std::string> known) {
  return fmt::format("'{}' is not one of {}{}", got, fmt::join(known, ", "),
                     did_you_mean(got, known));
}

std::string no_such(std::string_view what, std::string_view name,
                    std::span<const std::string> known) {
  return fmt::format("no {} '{}'{} ({}s: {})", what, name, did_you_mean(name, known), what,
                     fmt::join(known, ", "));
}

}  // namespace baechi
