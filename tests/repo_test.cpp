/// The scripts that ./dev runs to write files.

#include "tests/prelude.h"

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

TEST_SUITE_BEGIN("repository");
TEST_CASE("pages name files, headings, verbs and flags that exist") {
  check_by("tests/layout/pages.py", "'" + source_dir() + "' '" + program() + "'");
}

TEST_CASE("includes go down the layers, and types, words, pages and numbers are as decided") {
  check_by("tests/layout/layout.py", "");
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

TEST_CASE("no function of an unnamed namespace overloads one of another source") {
  check_by("tests/layout/unnamed.py", "'" + fs::path(program()).parent_path().string() + "'");
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
  CHECK(holds(folder.read("placers/CMakeLists.txt"), "  simple.cpp\n  turn.cpp\n"));
  CHECK(holds(folder.read("placers/registry.cpp"), ".make = make_turn"));
  for (const char* name : {"turn.cpp", "registry.cpp"})
    CHECK(shell("c++ -std=gnu++20 -fsyntax-only -I '" + source_dir() + "' '" +
                (placers / name).string() + "'") == 0);
  CHECK(shell(command) != 0);  // it is there already
}
