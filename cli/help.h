#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace baechi {

/// The layout of --help: lines of 100 characters; flags with the type of their value.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_description(const CLI::App* verb) const override;
  std::string make_footer(const CLI::App* verb) const override;
};

/// Breaks `text` at spaces into lines of at most `most` characters; longer words are not broken.
std::string wrapped(const std::string& text, std::size_t most);

/// The same for each line of `text`.
std::string wrapped_lines(const std::string& text, std::size_t most = 100);

/// Removes CLI11's descriptions of validators from the help of the verb and its subcommands.
void plain_types(CLI::App& verb);

}  // namespace baechi
