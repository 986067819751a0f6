#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/this_build.h"

using baechi::testing::source_dir;

namespace {

namespace fs = std::filesystem;

/// The folders from the ground up, a floor per line. A file includes its own folder, the words in
/// "sim", and folders on lower floors, never one beside or above it. A folder that others are in
/// has two floors: its headers are what the folders in it build on ("placers"), its sources use
/// them ("placers/*.cpp").
const std::vector<std::vector<std::string>>& floors() {
  static const std::vector<std::vector<std::string>> table{
      {"sim"},
      {"sim/graph", "validate/plan"},
      {"sim/accelerator", "sim/cluster", "sim/transform"},
      {"sim/problem", "sim/transform/grouping", "sim/transform/training"},
      {"sim/transform/what_if"},
      {"sim/original"},
      {"sim/engine"},
      {"sim/objective", "sim/report", "sim/collectives"},
      {"sim/explain", "sim/pipeline"},
      {"sim/pipeline/schedules"},
      {"sim/measure"},
      {"traces"},
      {"traces/format", "traces/generate"},
      {"traces/import"},
      {"traces/import/chakra", "traces/import/hlo", "traces/import/kineto", "traces/import/onnx",
       "traces/import/tensorflow"},
      {"traces/import/pytorch", "traces/generate/layers", "traces/generate/tf1"},
      {"traces/generate/models"},
      {"traces/*.cpp"},
      {"placers/interface"},
      {"placers/list"},
      {"placers/files", "placers/learned", "placers/solver", "placers/search"},
      {"placers/external", "placers/sct", "placers/exact"},
      {"placers/bounds", "placers/original", "placers/partition", "placers/planners"},
      {"placers"},
      {"scenarios/results"},
      {"scenarios/read"},
      {"scenarios/report"},
      {"scenarios/run"},
      {"scenarios/arena", "scenarios/planning"},
      {"scenarios/studies/codesign", "scenarios/studies/serving"},
      {"scenarios/published"},
      {"validate"},
      {"validate/processor"},
      {"validate/published"},
      {"validate/fit"},
      {"cli", "python"},
      {"bench"},
      {"tests"},
  };
  return table;
}

/// The CUDA harness stands beside the house: it includes plans and nothing else of ours, and only
/// its tests know it.
bool is_harness(const fs::path& path) {
  return path.string().starts_with("validate/cuda");
}

/// The floor of a file, given its path from the root; nothing if no folder of the table holds it.
std::optional<std::size_t> floor_of(const fs::path& path) {
  const std::string room = path.begin()->string();
  const std::string folder =
      room == "tests" || room == "bench" ? room : path.parent_path().string();
  const std::string sources = folder + "/*" + path.extension().string();
  std::optional<std::size_t> found;
  for (std::size_t floor = 0; floor < floors().size(); ++floor) {
    for (const std::string& entry : floors()[floor])
      if (entry == folder || entry == sources) found = floor;
  }
  return found;
}

std::vector<std::string> quoted_includes(const fs::path& file) {
  std::vector<std::string> found;
  std::ifstream text(file);
  const std::string begin = "#include \"";
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(begin))
      found.push_back(line.substr(begin.size(), line.find('"', begin.size()) - begin.size()));
  }
  return found;
}

std::vector<fs::path> sources() {
  const std::set<std::string> endings{".h", ".cpp", ".cu", ".cuh"};
  std::vector<fs::path> files;
  for (const char* folder :
       {"sim", "traces", "placers", "scenarios", "validate", "cli", "bench", "python", "tests"}) {
    if (!fs::is_directory(fs::path(source_dir()) / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / folder)) {
      if (endings.contains(entry.path().extension().string()))
        files.push_back(fs::relative(entry.path(), source_dir()));
    }
  }
  return files;
}

/// The folders that the files of each folder include, headers and sources alike, but their own.
std::map<std::string, std::set<std::string>> included_folders() {
  std::map<std::string, std::set<std::string>> included;
  for (const fs::path& file : sources()) {
    if (file.begin()->string() == "tests") continue;
    const std::string folder = file.parent_path().string();
    for (const std::string& include : quoted_includes(fs::path(source_dir()) / file)) {
      const std::string other = fs::path(include).parent_path().string();
      if (other != folder) included[folder].insert(other);
    }
  }
  return included;
}

/// The name that `line` defines as a type: "Op" of "struct Op {"; "" if it defines none. Types that
/// are declared only, or are members of another, are none.
std::string defined_type(std::string_view line) {
  for (const std::string_view word : {"enum class ", "class ", "struct "}) {
    if (!line.starts_with(word)) continue;
    line.remove_prefix(word.size());
    const std::size_t end = line.find_first_of(" :{;");
    const std::string_view rest = line.substr(std::min(end, line.size()));
    const bool declared_only = rest == ";" || rest.starts_with("::");
    const bool defined =
        rest.find('{') != rest.npos || rest.starts_with(" final :") || rest.starts_with(" :");
    return defined && !declared_only ? std::string(line.substr(0, end)) : "";
  }
  return "";
}

/// The types that a header defines outside other types, with their namespaces: "baechi::Op". The
/// formatter sees to it that such lines begin in the first column.
std::vector<std::string> types_of(const fs::path& header) {
  constexpr std::string_view opens = "namespace ", closes = "}  // namespace";
  std::vector<std::string> names, open;
  std::ifstream text(fs::path(source_dir()) / header);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(opens) && line.ends_with(" {")) {
      open.push_back(line.substr(opens.size(), line.size() - opens.size() - 2) + "::");
    } else if (line.starts_with(closes) && !open.empty()) {
      open.pop_back();
    } else if (const std::string type = defined_type(line); !type.empty()) {
      std::string name;
      for (const std::string& space : open) name += space;
      names.push_back(name + type);
    }
  }
  return names;
}

}  // namespace

TEST_SUITE("layout") {
  TEST_CASE("no two headers of the program define types of one name") {
    std::map<std::string, fs::path> seen;
    for (const fs::path& file : sources()) {
      if (file.extension() != ".h" || is_harness(file) || file.begin()->string() == "tests")
        continue;
      for (const std::string& type : types_of(file)) {
        const auto [it, first] = seen.emplace(type, file);
        CHECK_MESSAGE(first, type, " stands in ", it->second.string(), " and ", file.string());
      }
    }
    CHECK(seen.contains("baechi::OpGraph"));
    CHECK(seen.contains("baechi::generate::tf1::Graph"));
    CHECK(seen.size() > 300);
  }

  TEST_CASE("a file includes its own folder and lower floors only") {
    REQUIRE(sources().size() > 30);
    for (const fs::path& file : sources()) {
      CAPTURE(file.string());
      const auto from = floor_of(file);
      REQUIRE_MESSAGE((from || is_harness(file)), "a folder without a floor");
      for (const std::string& include : quoted_includes(fs::path(source_dir()) / file)) {
        CAPTURE(include);
        const fs::path to = include;
        REQUIRE_MESSAGE(fs::exists(fs::path(source_dir()) / to),
                        "includes are written from the root of the checkout");
        if (is_harness(file)) {
          CHECK((is_harness(to) || to.parent_path() == "validate/plan"));
        } else if (is_harness(to)) {
          CHECK(file.begin()->string() == "tests");
        } else {
          REQUIRE(floor_of(to));
          CHECK((to.parent_path() == file.parent_path() || *floor_of(to) < *from ||
                 (file.begin()->string() == "tests" && to.begin()->string() == "tests")));
        }
      }
    }
  }

  // Folders whose includes are all gone are taken away, again and again: what is left are circles.
  TEST_CASE("no folders include each other, in a pair or in a circle") {
    std::map<std::string, std::set<std::string>> left = included_folders();
    REQUIRE(left.size() > 30);
    const auto gone = [&](const std::string& folder) { return !left.contains(folder); };
    for (std::size_t before = 0; before != left.size();) {
      before = left.size();
      std::erase_if(left,
                    [&](const auto& entry) { return std::ranges::all_of(entry.second, gone); });
    }
    for (const auto& [folder, others] : left) {
      std::string text = folder + " is in a circle, or includes one:";
      for (const std::string& other : others)
        if (!gone(other)) text += " " + other;
      FAIL_CHECK(text);
    }
  }

  TEST_CASE("only one file knows yaml-cpp, and no header knows Boost.Graph but the adapter") {
    for (const fs::path& file : sources()) {
      CAPTURE(file.string());
      std::ifstream text(fs::path(source_dir()) / file);
      for (std::string line; std::getline(text, line);) {
        CAPTURE(line);
        if (line.starts_with("#include <yaml-cpp")) CHECK(file == "scenarios/read/yaml.cpp");
        if (line.starts_with("#include <boost/graph") && file.extension() == ".h")
          CHECK(file == "sim/graph/bgl.h");
      }
    }
  }
}
