#include "scenarios/query/query.h"

#include <fstream>
#include <iostream>

#include "cli/arguments.h"
#include "cli/output.h"

namespace baechi {
namespace {

/// Answers what was asked so far.
void answer_batch(std::vector<std::string>& questions) {
  query::answer_all(questions, [](const std::string& answer) { print_out(answer + '\n'); });
  questions.clear();
}

int answer_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path);
  if (path != "-" && !file) throw InputError(path + ": cannot be read");
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
