#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "tests/this_build.h"

using baechi::testing::source_dir;

namespace {

namespace fs = std::filesystem;

/// A line of tests/layout/modules.txt, where the format is described.
struct ModuleLine {
  std::string folder;
  bool core = false;
  std::string what;
};

/// The modules by layer, lowest first.
const std::vector<std::vector<ModuleLine>>& layers() {
  static const std::vector<std::vector<ModuleLine>> table = [] {
    std::vector<std::vector<ModuleLine>> all;
    std::ifstream text(fs::path(source_dir()) / "tests/layout/modules.txt");
    bool gap = true;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with('#')) continue;
      if (!line.empty() && gap) all.emplace_back();
      gap = line.empty();
      if (gap) continue;
      std::istringstream words(line);
      ModuleLine module;
      std::string core;
      words >> module.folder >> core >> std::ws;
      std::getline(words, module.what);
      REQUIRE_MESSAGE((core == "core" || core == "-"), line);
      module.core = core == "core";
      all.back().push_back(std::move(module));
    }
    return all;
  }();
  return table;
}

/// The CUDA harness is standalone: it includes only validate/plan, and only its tests include it.
bool is_harness(const fs::path& path) { return path.string().starts_with("validate/cuda"); }

/// The layer of a file, given its path from the root; nullopt if its folder is not in the table.
std::optional<std::size_t> layer_of(const fs::path& path) {
  const std::string module = path.begin()->string();
  const std::string folder =
      module == "tests" || module == "bench" ? module : path.parent_path().string();
  const std::string sources = folder + "/*" + path.extension().string();
  std::optional<std::size_t> found;
  for (std::size_t layer = 0; layer < layers().size(); ++layer) {
    for (const ModuleLine& entry : layers()[layer])
      if (entry.folder == folder || entry.folder == sources) found = layer;
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

/// The other folders that each folder's files include.
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

/// The type that `line` defines: "Op" of "struct Op {"; "" if none. Declarations and members do not
/// count.
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

/// The types that a header defines at namespace level: "baechi::Op". clang-format starts such lines
/// in the first column.
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
  TEST_CASE("no two headers of the program define a type of the same name") {
    std::map<std::string, fs::path> seen;
    for (const fs::path& file : sources()) {
      if (file.extension() != ".h" || is_harness(file) || file.begin()->string() == "tests")
        continue;
      for (const std::string& type : types_of(file)) {
        const auto [it, first] = seen.emplace(type, file);
        CHECK_MESSAGE(first, type, " is defined in ", it->second.string(), " and ", file.string());
      }
    }
    CHECK(seen.contains("baechi::OpGraph"));
    CHECK(seen.contains("baechi::generate::tf1::Graph"));
    CHECK(seen.size() > 300);
  }

  TEST_CASE("a file includes only its own folder and lower layers") {
    REQUIRE(sources().size() > 30);
    for (const fs::path& file : sources()) {
      CAPTURE(file.string());
      const auto from = layer_of(file);
      REQUIRE_MESSAGE((from || is_harness(file)),
                      "a folder that is not in tests/layout/modules.txt");
      for (const std::string& include : quoted_includes(fs::path(source_dir()) / file)) {
        CAPTURE(include);
        const fs::path to = include;
        REQUIRE_MESSAGE(fs::exists(fs::path(source_dir()) / to),
                        "includes are paths from the root of the repository");
        if (is_harness(file)) {
          CHECK((is_harness(to) || to.parent_path() == "validate/plan"));
        } else if (is_harness(to)) {
          CHECK(file.begin()->string() == "tests");
        } else {
          REQUIRE(layer_of(to));
          CHECK((to.parent_path() == file.parent_path() || *layer_of(to) < *from ||
                 (file.begin()->string() == "tests" && to.begin()->string() == "tests")));
        }
      }
    }
  }

  TEST_CASE("the map in ARCHITECTURE.md lists the modules, highest layer first") {
    std::string map = "| folder | what it does |\n|---|---|\n";
    for (auto layer = layers().rbegin(); layer != layers().rend(); ++layer)
      for (const ModuleLine& module : *layer) {
        const bool sources = module.folder.ends_with(".cpp");  // their headers are in another layer
        REQUIRE((sources || fs::is_directory(fs::path(source_dir()) / module.folder)));
        const std::string bold = module.core ? "**" : "";
        map += "| " + bold + "`" + module.folder + (sources ? "`" : "/`") + bold + " | " +
               module.what + " |\n";
      }
    std::ifstream file(fs::path(source_dir()) / "ARCHITECTURE.md");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    CHECK_MESSAGE(page.find("<!-- modules -->\n" + map + "<!-- end -->") != page.npos,
                  "run ./dev docs");
  }

  // Repeatedly removes folders whose includes were all removed: the rest are cycles.
  TEST_CASE("folders have no include cycle") {
    std::map<std::string, std::set<std::string>> left = included_folders();
    REQUIRE(left.size() > 30);
    const auto removed = [&](const std::string& folder) { return !left.contains(folder); };
    for (std::size_t before = 0; before != left.size();) {
      before = left.size();
      std::erase_if(left,
                    [&](const auto& entry) { return std::ranges::all_of(entry.second, removed); });
    }
    for (const auto& [folder, others] : left) {
      std::string text = folder + " is in an include cycle, or includes one:";
      for (const std::string& other : others)
        if (!removed(other)) text += " " + other;
      FAIL_CHECK(text);
    }
  }

  TEST_CASE("only one file includes yaml-cpp, and only one header Boost.Graph") {
    for (const fs::path& file : sources()) {
      CAPTURE(file.string());
      std::ifstream text(fs::path(source_dir()) / file);
      for (std::string line; std::getline(text, line);) {
        CAPTURE(line);
        if (line.starts_with("#include <yaml-cpp")) CHECK(file == "scenarios/read/yaml.cpp");
        if (line.starts_with("#include <boost/graph") && file.extension() == ".h")
          CHECK(file == "tests/sim/graph/bgl.h");
      }
    }
  }

  TEST_CASE("a word of GLOSSARY's last table is in names of types and files of its modules only") {
    // A row: "| **plan** | `validate`: replay plans; `cli`: ... |"
    std::ifstream page(fs::path(source_dir()) / "GLOSSARY.md");
    std::map<std::string, std::vector<std::string>> folders_of_word;
    bool reading = false;
    for (std::string line; std::getline(page, line);) {
      if (line.starts_with("## ")) reading = line == "## Words that belong to one module";
      if (!reading || !line.starts_with("| **")) continue;
      std::vector<std::string>& of = folders_of_word[line.substr(4, line.find("**", 4) - 4)];
      for (std::size_t at = line.find('`'); at != line.npos;) {
        const std::size_t end = line.find('`', at + 1);
        of.push_back(line.substr(at + 1, end - at - 1));
        at = line.find('`', end + 1);
      }
    }
    CHECK(folders_of_word.size() == 5);
    const auto allowed = [&](const std::string& word, const std::string& folder) {
      return std::ranges::any_of(folders_of_word[word], [&](const std::string& module) {
        return folder == module || folder.starts_with(module + "/");
      });
    };
    std::size_t seen = 0;
    for (const fs::path& file : sources()) {
      const std::string top = file.begin()->string();
      if (top == "tests" || top == "bench" || is_harness(file)) continue;
      std::vector<std::string> names{"_" + file.stem().string() + "_"};  // "_plan_search_"
      if (file.extension() == ".h")
        for (const std::string& type : types_of(file)) {
          names.emplace_back();  // "::PlanSearch" is "_plan_search_"
          for (const char c : type.substr(type.rfind(':') + 1)) {
            const bool capital = c >= 'A' && c <= 'Z';
            if (capital) names.back() += '_';
            names.back() += capital ? static_cast<char>(c - 'A' + 'a') : c;
          }
          names.back() += '_';
        }
      for (const auto& [word, unused] : folders_of_word)
        for (const std::string& name : names) {
          if (name.find("_" + word + "_") == name.npos && name.find("_" + word + "s_") == name.npos)
            continue;
          ++seen;
          CHECK_MESSAGE(allowed(word, file.parent_path().string()), word, " in ", name, " of ",
                        file.string());
        }
    }
    CHECK(seen > 20);
  }
}
