/// The examples: scenarios, and transcripts of commands with their output.

#include "scenarios/read/scenario.h"
#include "tests/prelude.h"

namespace {

namespace fs = std::filesystem;

/// The output of a shell that runs `command` in `folder`, including standard error.
std::string printed(const std::string& command, const fs::path& folder) {
  const std::string line = "cd '" + folder.string() + "' && export COLUMNS=100 PATH='" +
                           fs::path(program()).parent_path().string() + "':\"$PATH\" && { " +
                           command + "; } 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get()))
    text += static_cast<char>(c);
  return text;
}

std::string file_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_SUITE_BEGIN("examples");
TEST_CASE("every transcript's commands print its text (./dev docs updates it)") {
  const TemporaryFolder scratch;
  const fs::path source = source_dir();
  const fs::path folder = scratch.file("scenarios/examples");
  fs::create_directories(folder.parent_path());
  fs::copy(source / "scenarios/examples", folder, fs::copy_options::recursive);
  fs::create_directory_symlink(source / "traces", folder.parent_path().parent_path() / "traces");
  const std::string docs = (source / "tests/layout/docs.py").string();
  CHECK(printed("python3 '" + docs + "' '" + program() + "' *.transcript", folder) == "");
  std::size_t transcripts = 0;
  for (const auto& entry : fs::directory_iterator(source / "scenarios/examples")) {
    if (entry.path().extension() != ".transcript") continue;
    ++transcripts;
    CAPTURE(entry.path().filename().string());
    CHECK(file_text(folder / entry.path().filename()) == file_text(entry.path()));
  }
  CHECK(transcripts >= 10);
}

TEST_CASE("every example scenario runs, and no run is an error") {
  const TemporaryFolder scratch;
  if (!thorough()) MESSAGE("in part: 2 long ones (set BAECHI_THOROUGH)");
  std::size_t run = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(source_dir()) / "scenarios/examples")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(name);
    CHECK(file_text(entry.path())
              .starts_with("# yaml-language-server: $schema=../scenario.schema.json\n"));
    CHECK(load_scenario(entry.path().string()).num_points() > 0);
    if (name == "codesign.yaml") continue;  // a transcript
    ++run;
    const bool part = !thorough() && (name == "search.yaml" || name == "fusion_on_h100.yaml");
    const fs::path out = scratch.file(name);
    CHECK(printed("baechi run --quiet '" + entry.path().string() + "' --out '" + out.string() +
                      (part ? "' --shard 1/60 --set 'placers=[m_topo, m_etf]" : "") +
                      "' && echo done",
                  source_dir()) == "done\n");
    const std::string results = file_text(out / "results.csv");
    CHECK(std::ranges::count(results, '\n') > 1);
    CHECK_FALSE(holds(results, ",error,"));
  }
  CHECK(run >= 12);
}
