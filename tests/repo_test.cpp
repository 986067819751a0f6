/// The scripts that ./dev runs to write files.

#include <regex>

#include "tests/prelude.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"

namespace {

namespace fs = std::filesystem;

int shell(const std::string& command) {
  return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str());  // NOLINT
}

/// Runs a script of tests/layout, which prints mistakes and then exits with a code other than 0.
void check_by(const std::string& script, const std::string& arguments) {
  const TemporaryFolder folder;
  const int code = std::system(  // NOLINT
      ("python3 '" + source_dir() + "/" + script + "' " + arguments + " >'" +
       folder.file("faults") + "' 2>&1")
          .c_str());
  CHECK_MESSAGE(code == 0, folder.read("faults"));
}

}  // namespace

TEST_SUITE("repository") {
  TEST_CASE("pages name files, headings, verbs and flags that exist") {
    check_by("tests/layout/pages.py", "'" + source_dir() + "' '" + program() + "'");
  }

  TEST_CASE("the queries of results run, and the columns of results.csv are numbers or words") {
    check_by("tests/layout/results.py", "'" + source_dir() + "' '" + program() + "'");
  }

  TEST_CASE("the schema of answers has every key that the verbs print, with its description") {
    check_by("tests/layout/answers.py", "'" + program() + "' --check");
  }

  TEST_CASE("the list of changes that tests must notice names text and tests that are there") {
    check_by("tests/mutants/mutants.py", "--list");
  }

  TEST_CASE(
      "no function of an unnamed namespace overloads one of another source of its unity build") {
    check_by("tests/layout/unnamed.py", "'" + fs::path(program()).parent_path().string() + "'");
  }

  TEST_CASE("README fits a newcomer's first sitting: 1,200 words at most") {
    std::ifstream page(fs::path(source_dir()) / "README.md");
    std::size_t words = 0;
    for (std::string word; page >> word;) ++words;
    CHECK(words > 500);
    CHECK(words <= 1200);
  }

  TEST_CASE("the release has one version and one date") {
    const auto found = [](const char* file, const char* pattern) {
      std::ifstream page(fs::path(source_dir()) / file);
      const std::string text{std::istreambuf_iterator<char>(page), {}};
      std::smatch match;
      REQUIRE_MESSAGE(std::regex_search(text, match, std::regex(pattern)), file);
      return match[1].str();
    };
    const std::string version = found("CMakeLists.txt", R"(baechi_sim VERSION ([0-9.]+))");
    CHECK(found("CITATION.cff", R"(\nversion: ([0-9.]+))") == version);
    CHECK(found("CHANGELOG.md", R"(\n## ([0-9.]+) )") == version);
    CHECK(found("packaging/changelog", R"(\(([0-9.]+)-1\))") == version);
    CHECK(found("packaging/Containerfile", R"(baechi-sim:([0-9.]+) )") == version);
    const std::string date = found("CITATION.cff", R"(date-released: ([0-9-]+))");
    CHECK(found("CHANGELOG.md", R"(\n## [0-9.]+ \(([0-9-]+)\))") == date);
  }

  TEST_CASE("no sentence of a comment or a page begins with a bare 'Of'") {
    const std::regex bare(R"((^|[.:]|//|///|#) *Of [a-z0-9])");
    for (const char* room :
         {"sim", "traces", "placers", "scenarios", "validate", "cli", "bench", "tests"})
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_dir()) / room)) {
        const std::string kind = entry.path().extension();
        if (kind != ".h" && kind != ".cpp" && kind != ".md" && kind != ".yaml") continue;
        std::ifstream file(entry.path());
        int number = 0;
        for (std::string line; std::getline(file, line);) {
          ++number;
          if (line.find("Of ") == std::string::npos || !std::regex_search(line, bare)) continue;
          if (entry.path().filename() == "repo_test.cpp") continue;
          FAIL_CHECK(entry.path().string(), ":", number, ": ", line);
        }
      }
  }

  TEST_CASE("./dev new placer writes the file and the lines, and they compile") {
    const TemporaryFolder folder;
    const fs::path placers = folder.file("placers");
    fs::create_directory(placers);
    for (const char* name : {"registry.cpp", "CMakeLists.txt"})
      fs::copy(fs::path(source_dir()) / "placers" / name, placers / name);
    const std::string command = "python3 '" + source_dir() +
                                "/tests/layout/new.py' placer turn --root '" +
                                placers.parent_path().string() + "'";
    REQUIRE(shell(command) == 0);
    CHECK(folder.read("placers/CMakeLists.txt").find("  simple.cpp\n  turn.cpp\n") !=
          std::string::npos);
    CHECK(folder.read("placers/registry.cpp").find(".make = make_turn") != std::string::npos);
    for (const char* name : {"turn.cpp", "registry.cpp"})
      CHECK(shell("c++ -std=gnu++20 -fsyntax-only -I '" + source_dir() + "' '" +
                  (placers / name).string() + "'") == 0);
    CHECK(shell(command) != 0);  // it is there already
  }
}
