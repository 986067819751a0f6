/// The layout of --help.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace baechi {

/// Wraps lines at 100 characters and shows each flag with its name and the type of its value.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_description(const CLI::App* verb) const override;
  std::string make_footer(const CLI::App* verb) const override;
};

/// Breaks `text` at spaces into lines of at most `most` characters; a longer word has its own line.
std::string wrapped(const std::string& text, std::size_t most);

/// Takes what CLI11 says of validators out of the help of the verb and its subcommands: an option's
/// type is one word, and its description says which values there are.
void plain_types(CLI::App& verb);

}  // namespace baechi
