#include "cli/help.h"

#include <algorithm>

namespace baechi {
namespace {

constexpr std::size_t width = 100, column = 34;

/// Breaks `text` at spaces into lines of at most `most` characters; a longer word has its own line.
std::string wrapped(const std::string& text, std::size_t most) {
  std::string out, line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > most) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line;
}

}  // namespace

HelpFormat::HelpFormat() {
  label("OPTIONS", "FLAGS");
  label("SUBCOMMAND", "VERB");
  column_width(column);
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), width - column);
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (option->get_type_size() != 0 && !option->get_type_name().empty())
    text = " " + option->get_type_name();
  if (option->get_expected_max() >= CLI::detail::expected_max_vector_size) text += " ...";
  if (option->get_required() && option->nonpositional()) text += " (needed)";
  return text;
}

}  // namespace baechi
