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
};

}  // namespace baechi
