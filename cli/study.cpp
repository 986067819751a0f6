#include "cli/verbs.h"

namespace baechi {

void add_study(CLI::App& app, Verb& chosen) {
  CLI::App* study = app.add_subcommand(
      "study", "Search designs: instances and batches of servers, architectures of accelerators");
  study->require_subcommand(1);
  add_configure(*study, chosen);
  add_codesign(*study, chosen);
  for (CLI::App* verb : study->get_subcommands({})) verb->group("Verbs");
}

}  // namespace baechi
