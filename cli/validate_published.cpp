#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "scenarios/read/data_folder.h"
#include "sim/error.h"
#include "sim/file_aside.h"
#include "sim/find_entry.h"
#include "validate/fit/fit.h"

namespace baechi {

using namespace validate;

namespace {

namespace fs = std::filesystem;

/// The folder of the measurements: `given`, else the program's own. Throws InputError if it is
/// none.
std::string measurements_folder(const std::string& given) {
  const std::string folder = given.empty() ? data_folder() + "/validate/published/data" : given;
  if (fs::is_directory(folder)) return folder;
  throw InputError(folder + ": no such folder; --data FOLDER says where the measurements are");
}

struct PublishedFlags {
  std::vector<std::string> blocks;
  std::string data, html, rows, format;
};

/// Becomes the board's program, which is in Python and asks `baechi query`.
int published(const PublishedFlags& flags) {
  const std::string board = data_folder() + "/validate/published/board.py";
  std::vector<std::string> words{"python3", board, "--program",
                                 fs::read_symlink("/proc/self/exe").string()};
  for (const auto& [flag, value] : {std::pair("--data", &flags.data),
                                    {"--format", &flags.format},
                                    {"--html", &flags.html},
                                    {"--rows", &flags.rows}})
    if (!value->empty()) words.insert(words.end(), {flag, *value});
  words.emplace_back("--");
  words.insert(words.end(), flags.blocks.begin(), flags.blocks.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw InputError(fmt::format("python3: {}; 'validate published' is a program in Python 3, {}",
                               std::generic_category().message(errno), board));
}

struct FitFlags {
  std::string what, data, out;
};

int fit(const FitFlags& flags) {
  const FitEntry& entry = find_entry(fits(), "fit", flags.what);
  std::optional<Stage> stage("fitting " + flags.what);
  const std::string yaml = entry.fit(measurements_folder(flags.data),
                                     [&](const std::atomic<std::size_t>& done, std::size_t total) {
                                       stage.reset();
                                       return stages("fitting " + flags.what)(done, total);
                                     });
  stage.reset();
  if (flags.out.empty())
    print_out(yaml);
  else
    write_aside(flags.out, yaml);
  return 0;
}

void add_data(CLI::App& verb, std::string& data) {
  verb.add_option("--data", data,
                  "Folder with vtrain/, dlexamples/, papers/, measured/ [validate/published/data]")
      ->type_name("FOLDER");
}

}  // namespace

void add_validate_published(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "published", "Score simulated times against measurements that others published");
  const auto flags = std::make_shared<PublishedFlags>();
  verb->add_option("BLOCK", flags->blocks, "Which blocks [all whose files are there]")
      ->type_name("");
  add_data(*verb, flags->data);
  verb->add_option("--html", flags->html, "Write a page with a table and charts")
      ->type_name("FILE");
  verb->add_option("--rows", flags->rows, "Write every row, measured and simulated, as CSV")
      ->type_name("FILE");
  add_format(*verb, flags->format, {"text", "json", "markdown"});
  verb->callback([flags, &chosen] { chosen = [flags] { return published(*flags); }; });
}

void add_validate_fit(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("fit", "Fit the numbers of a model to published measurements, as YAML");
  const auto flags = std::make_shared<FitFlags>();
  std::string known;
  for (const FitEntry& entry : fits())
    known += fmt::format("{}{}: {} (of {})", known.empty() ? "" : "; ", entry.name, entry.summary,
                         entry.data);
  add_argument(*verb, "WHAT,--what", flags->what, known);
  add_data(*verb, flags->data);
  verb->add_option("-o", flags->out, "The file to write [standard output]")->type_name("FILE");
  verb->callback([flags, &chosen] { chosen = [flags] { return fit(*flags); }; });
}

}  // namespace baechi
