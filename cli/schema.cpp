#include <memory>

#include "cli/output.h"
#include "cli/verbs.h"
#include "scenarios/read/scenario_reference.h"
#include "scenarios/read/scenario_schema.h"

namespace baechi {

void add_schema(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "schema", "Print the JSON Schema of scenario files, for editors, or their reference");
  const auto reference = std::make_shared<bool>(false);
  verb->add_flag("--reference", *reference,
                 "Print the reference as Markdown instead of the schema");
  verb->footer(
      "  baechi schema > scenarios/scenario.schema.json    # the repository's own copy\n"
      "  baechi schema --reference | less");
  verb->callback([reference, &chosen] {
    chosen = [reference] {
      print_out(*reference ? scenario_reference() : scenario_schema());
      return 0;
    };
  });
}

}  // namespace baechi
