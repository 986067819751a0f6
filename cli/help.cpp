#include "cli/help.h"

#include <algorithm>
#include <sstream>

namespace baechi {
namespace {

constexpr std::size_t width = 100, column = 34;

}  // namespace

std::string wrapped_lines(const std::string& text, std::size_t most) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    out += (line.size() <= most ? line : wrapped(line, most)) + "\n";
    begin = end + 1;
  }
  return out;
}

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

std::string HelpFormat::make_subcommand(const CLI::App* verb) const {
  std::ostringstream out;
  CLI::detail::format_help(out, verb->get_name(), wrapped(verb->get_description(), width - column),
                           column);
  return out.str();
}

std::string HelpFormat::make_description(const CLI::App* verb) const {
  return wrapped_lines(verb->get_description(), width);
}

std::string HelpFormat::make_footer(const CLI::App* verb) const {
  const std::string text = wrapped_lines(verb->get_footer(), width);
  return text.empty() ? "" : "\n" + text;
}

void plain_types(CLI::App& verb) {
  for (CLI::Option* option : verb.get_options()) {
    // CLI11 appends the validators' descriptions to the type: "INT in [1 - 1024]".
    try {
      for (int i = 0;; ++i) option->get_validator(i)->description("");
    } catch (const CLI::OptionNotFound&) {  // no more validators
    }
  }
  for (CLI::App* inner : verb.get_subcommands({})) plain_types(*inner);
}

}  // namespace baechi
