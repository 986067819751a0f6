#include "scenarios/run/report.h"

#include <fmt/format.h>

#include <memory>

#include "scenarios/cli/verbs.h"
#include "scenarios/run/results.h"

namespace baechi {

void add_report(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("report", "Rebuild report.html from the results in a folder");
  const auto folder = std::make_shared<std::string>();
  verb->add_option("DIR", *folder, "A folder that 'baechi run' wrote")->required()->type_name("");
  verb->callback([folder, &chosen] {
    chosen = [folder] {
      write_aside(*folder + "/report.html", to_html(read_results(*folder)));
      fmt::print(stderr, "{}/report.html\n", *folder);
      return 0;
    };
  });
}

}  // namespace baechi
