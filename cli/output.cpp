#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace baechi {
namespace {

/// The number of UTF-8 characters in `text`, not bytes.
std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

bool coloured() {
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): read only
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
}

std::string bold(std::string_view text) {
  return coloured() ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string red(std::string_view text) {
  return coloured() ? fmt::format("\x1b[31m{}\x1b[0m", text) : std::string(text);
}

std::string Columns::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], shown_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - shown_width(row[i]), ' ');
      line += i == 0 ? row[i] + gap : "  " + gap + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (&row == &rows_.front() ? bold(line) : line) + "\n";
  }
  return text;
}

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  if (errno == EPIPE) return;
  throw std::runtime_error(
      fmt::format("cannot write the answer: {}", std::generic_category().message(errno)));
}

void print_json(const nlohmann::ordered_json& json) {
  print_out(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace baechi
