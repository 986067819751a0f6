/// Runs the fuzz targets on their seeds, whole and truncated, without libFuzzer.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "tests/this_build.h"

// Each file of this folder defines LLVMFuzzerTestOneInput; the build calls it fuzz_NAME here.
using Target = int (*)(const std::uint8_t*, std::size_t);
#define BAECHI_TARGET(name) extern "C" int name(const std::uint8_t*, std::size_t);
#include <fuzz_targets.inc>
#undef BAECHI_TARGET

namespace {

namespace fs = std::filesystem;

const std::map<std::string, Target>& targets() {
  static const std::map<std::string, Target> table{
#define BAECHI_TARGET(name) {#name, name},
#include <fuzz_targets.inc>
#undef BAECHI_TARGET
  };
  return table;
}

/// The seed folders of each target from tests/fuzz/CMakeLists.txt: baechi_fuzz(NAME SOURCE
/// FOLDER...), relative to tests/.
std::map<std::string, std::vector<fs::path>> seed_folders() {
  const fs::path tests = fs::path(baechi::testing::source_dir()) / "tests";
  std::map<std::string, std::vector<fs::path>> found;
  std::ifstream file(tests / "fuzz/CMakeLists.txt");
  const std::string begin = "baechi_fuzz(";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(begin)) continue;
    std::istringstream words(line.substr(begin.size(), line.find(')') - begin.size()));
    std::string name, source;
    words >> name >> source;
    for (std::string folder; words >> folder;) found[name].push_back(tests / folder);
  }
  return found;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_SUITE_BEGIN("fuzz");
TEST_CASE("every fuzz target runs on its seeds: whole, cut in half and without the last byte") {
  const auto folders = seed_folders();
  CHECK(folders.size() == targets().size());
  for (const auto& [name, target] : targets()) {
    CAPTURE(name);
    REQUIRE(folders.contains(name));
    std::size_t seeds = 0;
    for (const fs::path& folder : folders.at(name)) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        CAPTURE(entry.path().string());
        ++seeds;
        const std::string seed = bytes_of(entry.path());
        for (const std::size_t size :
             {seed.size(), seed.size() / 2, seed.size() - (seed.empty() ? 0 : 1)})
          CHECK(target(reinterpret_cast<const std::uint8_t*>(seed.data()), size) == 0);
      }
    }
    CHECK(seeds > 0);
  }
}
