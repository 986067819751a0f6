#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <initializer_list>
#include <memory>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "scenarios/read/paths.h"
#include "sim/error.h"

namespace baechi {

namespace {

/// Becomes a program in Python 3 of the program's data folder, which asks `baechi query`.
[[noreturn]] void become(const std::string& script, std::vector<std::string> arguments) {
  const std::string path = data_folder() + "/validate/" + script;
  std::vector<std::string> words{"python3", path, "--program",
                                 std::filesystem::read_symlink("/proc/self/exe").string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers.front(), pointers.data());
  throw InputError(fmt::format("python3: {}; {} is a program in Python 3",
                               std::generic_category().message(errno), path));
}

/// The flags that have a value, each before it.
std::vector<std::string> given(
    std::initializer_list<std::pair<const char*, const std::string*>> flags) {
  std::vector<std::string> words;
  for (const auto& [flag, value] : flags)
    if (!value->empty()) words.insert(words.end(), {flag, *value});
  return words;
}

void add_data(CLI::App& verb, std::string& data) {
  verb.add_option("--data", data,
                  "Folder with vtrain/, dlexamples/, papers/, measured/ [validate/published/data]")
      ->type_name("FOLDER");
}

struct PublishedFlags {
  std::vector<std::string> blocks;
  std::string data, html, rows, format;
};
struct FitFlags {
  std::string what, data, out;
};
struct StepsFlags {
  std::string results, steps, format;
};

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
  verb->callback([flags, &chosen] {
    chosen = [flags]() -> int {
      std::vector<std::string> words = given({{"--data", &flags->data},
                                              {"--format", &flags->format},
                                              {"--html", &flags->html},
                                              {"--rows", &flags->rows}});
      words.emplace_back("--");
      words.insert(words.end(), flags->blocks.begin(), flags->blocks.end());
      become("published/board.py", std::move(words));
    };
  });
}

void add_validate_fit(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("fit", "Fit the numbers of a model to published measurements, as YAML");
  const auto flags = std::make_shared<FitFlags>();
  add_argument(
      *verb, "WHAT,--what", flags->what,
      "collectives, collective_tables, devices, kernels, megatron or network; needs scipy");
  add_data(*verb, flags->data);
  verb->add_option("-o", flags->out, "The file to write [standard output]")->type_name("FILE");
  verb->callback([flags, &chosen] {
    chosen = [flags]() -> int {
      std::vector<std::string> words = given({{"--data", &flags->data}, {"-o", &flags->out}});
      words.push_back(flags->what);
      become("fit/fit.py", std::move(words));
    };
  });
}

void add_validate_steps(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand(
      "steps", "Score predicted steps and peaks of whole models against measured ones");
  const auto flags = std::make_shared<StepsFlags>();
  add_argument(*verb, "RESULTS", flags->results,
               "results.csv of a run, such as validate/steps/predicted.csv");
  add_argument(*verb, "STEPS", flags->steps, "steps.jsonl of './dev gpu visit'");
  add_format(*verb, flags->format, {"text", "json"});
  verb->callback([flags, &chosen] {
    chosen = [flags]() -> int {
      std::vector<std::string> words = given({{"--format", &flags->format}});
      words.insert(words.end(), {"--", flags->results, flags->steps});
      become("published/steps.py", std::move(words));
    };
  });
}

}  // namespace baechi
