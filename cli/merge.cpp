#include "scenarios/results/merge.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "scenarios/report/write_results.h"

namespace baechi {
namespace {

struct MergeFlags {
  std::vector<std::string> folders;
  std::string out;
  bool partial = false;
};

int merge(const MergeFlags& flags) {
  std::optional<Stage> stage("merging");
  const Results all = merge_results(flags.folders, flags.partial);
  merge_timelines(flags.folders, flags.out);
  write_results(flags.out, all);
  stage.reset();
  fmt::print(stderr, "{0}/report.html  {0}/results.csv  {0}/results.sqlite: {1} of {2} runs\n",
             flags.out, all.rows.size(), all.planned);
  return 0;
}

}  // namespace

void add_merge(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("merge", "Merge the results of shards");
  const auto flags = std::make_shared<MergeFlags>();
  add_argument(*verb, "DIR", flags->folders, "Folders that 'baechi run --shard I/N' wrote");
  verb->add_option("--out", flags->out, "Folder of the merged results")
      ->required()
      ->type_name("DIR");
  verb->add_flag("--partial", flags->partial, "Merge even if shards are missing");
  verb->footer(
      "The merged results equal those of a run without shards. If shards are missing, they are\n"
      "listed, nothing is written, and the exit code is 2. After --partial,\n"
      "'baechi run SCENARIO --out DIR --resume' runs the missing ones.");
  verb->callback([flags, &chosen] { chosen = [flags] { return merge(*flags); }; });
}

}  // namespace baechi
