#include "scenarios/published/paper.h"

#include <filesystem>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "scenarios/read/paths.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

struct PaperArguments {
  std::string name, out;
  std::size_t threads = 0;
  bool check = false, quiet = false;
};

constexpr int difference_found = 3;

/// True if the results equal the results.csv in the paper's folder; prints the difference if not.
bool check_committed(const Paper& paper, const PaperResult& result) {
  const std::string path = paper.folder + "/results.csv";
  const std::string found = difference_from_committed(paper, result);
  if (found.empty()) {
    print_out(fmt::format("{}: equal to {}\n", paper.name, path));
    return true;
  }
  print_out(fmt::format("{}: {}\n{}", paper.name, red("differs from " + path), found));
  return false;
}

int papers(const PaperArguments& arguments) {
  const std::size_t threads = arguments.threads != 0
                                  ? arguments.threads
                                  : std::max(1U, std::thread::hardware_concurrency());
  Mistakes mistakes;
  std::vector<Paper> all;
  for (const std::string& folder :
       paper_folders(with_data_folder("scenarios/papers"), arguments.name))
    all.push_back(load_paper(folder, mistakes));
  mistakes.throw_if_any();
  bool same = true;
  for (const Paper& paper : all) {
    if (!paper.missing.empty()) {
      print_out(fmt::format("{}: skipped: {}\n", paper.name, paper.missing));
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::string what =
        fmt::format("{}, {} of {}: ", paper.name, &paper - all.data() + 1, all.size());
    const PaperResult result =
        evaluate(paper, threads, [&](const std::atomic<std::size_t>& done, std::size_t total) {
          return std::make_shared<Progress>(done, total, arguments.quiet, what);
        });
    if (!arguments.quiet)
      fmt::print(stderr, "{}{}\n", what,
                 to_text(Duration(std::chrono::steady_clock::now() - start)));
    if (!arguments.out.empty()) {
      const std::string folder = arguments.out + "/" + paper.name;
      fs::create_directories(folder);
      write_aside(folder + "/results.csv", to_csv(paper, result));
      write_aside(folder + "/results.md", to_markdown(paper, result));
    }
    if (arguments.check)
      same = check_committed(paper, result) && same;
    else
      print_out(wrapped_lines(to_text(paper, result)));
  }
  return same ? 0 : difference_found;
}

}  // namespace

void add_paper(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      app, chosen, "paper", "Compare published tables of papers with simulated ones", papers);
  add_value(*verb, "NAME", arguments->name, "", "Name of the paper ('baechi list papers') [all]");
  add_value(*verb, "--out", arguments->out, "DIR", "Write DIR/NAME/results.csv and results.md");
  verb->add_flag("--check", arguments->check,
                 "Compare with the results.csv in the paper's folder; exit code 3 if it differs");
  add_number(*verb, "-j", arguments->threads, 1, 1024, "Threads [one per core]");
  verb->add_flag("--quiet", arguments->quiet, "Do not show progress");
  verb->footer(
      "Examples:\n"
      "  baechi paper baechi_socc20\n"
      "  baechi paper --check");
}

}  // namespace baechi
