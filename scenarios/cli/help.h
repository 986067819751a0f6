/// How --help looks.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace baechi {

/// Lines of at most 100 letters, flags by name and what they take.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace baechi
