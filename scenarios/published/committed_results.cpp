#include "scenarios/published/committed_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines that only one of the two texts has; "" if there are none. Ignores the lines' order.
std::string differences(const std::string& committed, const std::string& now) {
  const std::vector<std::string> before = lines_of(committed), after = lines_of(now);
  std::string text;
  for (const std::string& line : before)
    if (std::ranges::find(after, line) == after.end()) text += "  - " + line + "\n";
  for (const std::string& line : after)
    if (std::ranges::find(before, line) == before.end()) text += "  + " + line + "\n";
  return text;
}

}  // namespace

std::vector<std::string> paper_folders(const std::string& below, const std::string& name) {
  std::vector<std::string> found, names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(below, none)) {
    if (!fs::exists(entry.path() / "paper.yaml")) continue;
    names.push_back(entry.path().filename().string());
    if (name.empty() || names.back() == name) found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  std::ranges::sort(names);
  if (names.empty())
    throw InputError(fmt::format("no papers below '{}' (--folder says where)", below));
  if (found.empty()) throw InputError(no_such("paper", name, names));
  return found;
}

std::string difference_from_committed(const Paper& paper, const PaperResult& result) {
  std::ifstream file(paper.folder + "/results.csv");
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  return differences(committed, to_csv(paper, result));
}

}  // namespace baechi
