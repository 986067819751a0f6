#include "scenarios/query/query.h"

#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/arguments.h"
#include "cli/output.h"
#include "scenarios/read/paths.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

/// Answers what was asked so far.
void answer_batch(std::vector<std::string>& questions) {
  query::answer_all(questions, [](const std::string& answer) { print_out(answer + '\n'); });
  questions.clear();
}

int answer_file(const std::string& path) {
  if (is_file(path)) require_kind(TextFile(path, Content::any), "questions");
  std::ifstream file;
  if (path != "-") file.open(path);
  if (path != "-" && (!file || std::filesystem::is_directory(path)))
    throw InputError(path + ": cannot be read");
  std::istream& lines = path == "-" ? std::cin : file;
  std::vector<std::string> questions;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      questions.push_back(line);
    else
      answer_batch(questions);
  }
  answer_batch(questions);
  return 0;
}

}  // namespace

void add_query(CLI::App& app, Verb& chosen) {
  const auto [verb, path] = add_verb(
      app, chosen, "query", "Answer many questions on kernels, collectives and steps, for programs",
      answer_file);
  add_argument(*verb, "FILE,--file", *path,
               "A JSON object per line, each answered by one (cli/json.md); '-' is standard input. "
               "A blank line has what precedes it answered first");
}

}  // namespace baechi
