#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// What each folder may include besides itself and "sim", the words everyone speaks.
const std::map<std::string, std::set<std::string>>& directions() {
  static const std::set<std::string> model{"sim/graph",  "sim/transform", "sim/cluster",
                                           "sim/engine", "sim/objective", "sim/report"};
  static const auto with = [](std::set<std::string> all, std::initializer_list<const char*> more) {
    all.insert(more.begin(), more.end());
    return all;
  };
  static const std::map<std::string, std::set<std::string>> table{
      {"sim", {}},
      {"sim/graph", {}},
      {"sim/transform", {"sim/graph"}},
      {"sim/cluster", {"sim/graph"}},
      {"sim/engine", {"sim/graph", "sim/cluster"}},
      {"sim/objective", {"sim/graph", "sim/cluster", "sim/engine"}},
      {"sim/report", {"sim/graph", "sim/cluster", "sim/engine"}},
      {"traces", {"sim/graph", "traces/format"}},
      {"traces/format", {"sim/graph", "traces"}},
      // traces/format: an external placer is asked in the trace format.
      {"placers",
       {"sim/graph", "sim/transform", "sim/cluster", "sim/engine", "sim/objective",
        "traces/format"}},
      {"scenarios/run", with(model, {"traces", "traces/format", "placers"})},
      {"scenarios/cli",
       with(model, {"traces", "traces/format", "placers", "scenarios/run", "validate"})},
      {"validate", with(model, {"traces", "traces/format", "placers", "scenarios/run"})},
      {"validate/cuda", {}},
      {"bench", with(model, {"traces", "traces/format", "placers", "scenarios/run"})},
      {"tests", with(model, {"traces", "traces/format", "placers", "scenarios/run", "scenarios/cli",
                             "bench", "validate", "validate/cuda"})},
  };
  return table;
}

/// The deepest folder of the table that holds `path`, a file's path from the root.
std::optional<std::string> folder_of(const fs::path& path) {
  for (fs::path folder = path.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (directions().contains(folder.string())) return folder.string();
  }
  return std::nullopt;
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
       {"sim", "traces", "placers", "scenarios", "validate", "bench", "tests"}) {
    if (!fs::is_directory(fs::path(BAECHI_SOURCE_DIR) / folder)) continue;
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(BAECHI_SOURCE_DIR) / folder)) {
      if (endings.contains(entry.path().extension().string()))
        files.push_back(fs::relative(entry.path(), BAECHI_SOURCE_DIR));
    }
  }
  return files;
}

}  // namespace

TEST_SUITE("layout") {
  TEST_CASE("folders include only what lies below them") {
    REQUIRE(sources().size() > 30);
    for (const fs::path& file : sources()) {
      CAPTURE(file.string());
      const auto from = folder_of(file);
      REQUIRE_MESSAGE(from, "a folder without a rule");
      for (const std::string& include : quoted_includes(fs::path(BAECHI_SOURCE_DIR) / file)) {
        CAPTURE(include);
        const auto to = folder_of(include);
        REQUIRE_MESSAGE(to, "includes are written from the root of the checkout");
        CHECK((*to == *from || (*to == "sim" && *from != "validate/cuda") ||
               directions().at(*from).contains(*to)));
      }
    }
  }

  TEST_CASE("only one file knows yaml-cpp, and no header knows Boost.Graph but the adapter") {
    for (const fs::path& file : sources()) {
      CAPTURE(file.string());
      std::ifstream text(fs::path(BAECHI_SOURCE_DIR) / file);
      for (std::string line; std::getline(text, line);) {
        CAPTURE(line);
        if (line.starts_with("#include <yaml-cpp")) CHECK(file == "scenarios/run/yaml.cpp");
        if (line.starts_with("#include <boost/graph") && file.extension() == ".h")
          CHECK(file == "sim/graph/bgl.h");
      }
    }
  }
}
