/// A whole visit to a GPU (validate/cuda/kit.sh, visit.sh) with the harness that stands on
/// tests/standin.

#include "scenarios/read/sections.h"
#include "tests/prelude.h"
#include "validate/score.h"

using namespace baechi::validate;

namespace {

namespace fs = std::filesystem;

std::string programs() {
  return std::string("env BAECHI=") + program() + " HARNESS=" BAECHI_REPLAY_STANDIN " ";
}

/// A kit with the stand-in as its harness, made once.
const std::string& kit() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    REQUIRE(shell(folder, programs() + "bash " + source_dir() + "/validate/cuda/kit.sh kit") == 0);
    return folder.file("kit");
  }();
  return path;
}

/// Without PyTorch, unless the environment gives STEPS.
int visit(const TemporaryFolder& folder, const std::string& environment = "") {
  fs::create_directories(folder.file("without"));
  folder.write("without/torch.py", "raise ImportError('made up: there is none')\n");
  const bool steps = holds(environment, "STEPS=");
  return shell(folder, programs() + (steps ? "" : "PYTHONPATH=without ") + environment + " bash " +
                           source_dir() + "/validate/cuda/visit.sh out " + kit());
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.insert(entry.path().filename().string());
  return files;
}

const std::set<std::string> all_files{"clocks.csv", "facts.txt",   "harness.tgz", "held.tgz",
                                      "log.txt",    "kernels.tgz", "pair.tgz",    "steps.tgz"};

}  // namespace

TEST_SUITE_BEGIN("visit");
TEST_CASE("a visit brings steps and held-out plans home that were predicted before they ran") {
  const TemporaryFolder folder;
  const bool torch =
      there_is("PyTorch (python3-torch), for the steps", "/usr/bin/python3 -c 'import torch'");
  CHECK(visit(folder, torch ? "STEPS='--device cpu --tiny --only gnmt' "
                              "KERNELS='--device cpu --tiny' PAIR='--quick --models mlp "
                              "--processes 2 --ways two_stages --rounds 1'"
                            : "") == !torch);
  CAPTURE(folder.read("out.txt"));
  CHECK(names_in(folder.file("out")) == all_files);
  if (torch) {
    REQUIRE(shell(folder, "tar -xzf out/steps.tgz && grep -c step_seconds steps/steps.jsonl") == 0);
    CHECK(folder.read("out.txt") == "1\n");
    CHECK(fs::exists(folder.file("steps/gnmt.fp32.kineto.json.gz")));
    REQUIRE(shell(folder, "for f in kernels pair; do tar -xzf out/$f.tgz; done") == 0);
    CHECK(says(folder, "kernels/measured/aiconfigurator/gemm.csv", "cpu,bfloat16,4,8,16,0."));
    CHECK(says(folder, "kernels/measured/torch/convolutions.csv", "cpu,fp16,1,4,8,4,3,2,1,0."));
    CHECK(says(folder, "pair/peaks.csv", "mlp,two_stages,"));
  }
  REQUIRE(shell(folder,
                "tar -xzf out/held.tgz && cd held && find . -path '*/plans/*' -type f | "
                "LC_ALL=C sort | xargs cat | sha256sum | cut -c1-64") == 0);
  std::string hash = folder.read("out.txt");
  hash.pop_back();
  const std::string log = folder.read("out/log.txt");
  const std::size_t frozen = log.find("frozen: " + hash + " of 270 plans");
  REQUIRE(frozen != std::string::npos);
  for (const std::string set : {"short", "timed", "contended", "rings"}) {
    CAPTURE(set);
    CHECK(log.find(set + ": exit code 0") > frozen);
    const ValidationRun run = read_run(folder.file("held/" + set));
    const Validation v = compare(run, read_calibration(folder.file("measure/calibration.yaml")));
    CHECK(v.failed + v.not_replayed == 0);
    CHECK(v.frozen_equal == v.plans.size());
    for (const auto& [layer, of_layer] : v.layers) CHECK(of_layer.median < 0.001);
  }
}

TEST_CASE("copies that share an engine are predicted in the order in which it serves them") {
  // By capture is the stand-in's default, above.
  const TemporaryFolder folder;
  CHECK(visit(folder, "STANDIN_COPIES_AS_READY=1") == 1);  // without PyTorch
  REQUIRE(shell(folder, "tar -xzf out/held.tgz && cat measure/calibration.yaml") == 0);
  CHECK(says(folder, "out.txt", "in_order: false"));
  for (const std::string set : {"contended", "timed"}) {
    const Validation v = compare(read_run(folder.file("held/" + set)),
                                 read_calibration(folder.file("measure/calibration.yaml")));
    for (const auto& [layer, of_layer] : v.layers) CHECK(of_layer.p95 < 0.001);
  }
}

TEST_CASE("the kit has every library that the program needs but the C library's, and is small") {
  const TemporaryFolder folder;
  const std::string others = "ldd b/baechi | grep '=> /' | grep -v ' b/' | ";
  REQUIRE(shell(folder, "mkdir b && tar -C b -xzf " + kit() +
                            "/bundle.tgz && export LD_LIBRARY_PATH=b && " + others +
                            "grep -cvE '/(libc|libm|libpthread|libdl|librt)[.]so'") == 1);
  CHECK(folder.read("out.txt") == "0\n");
  REQUIRE(shell(folder, "cd " + source_dir() +
                            " && { git ls-files -z 2>/dev/null; printf '%s\\0' " + kit() +
                            "; } | du -bc --files0-from=- | tail -n 1 | cut -f 1") == 0);
  CHECK(std::stol(folder.read("out.txt")) < 60'000'000);
}

TEST_CASE("what a GPU cannot do is done otherwise") {
  const TemporaryFolder folder;
  CHECK(visit(folder, "STANDIN_NO_GREEN=1 STANDIN_NO_CAPTURE=1") == 1);
  check_says(folder, "out/log.txt",
             {"no PyTorch: made up", "with --no-partitions", "with --mode stream"});
  CHECK(names_in(folder.file("out")) == all_files);
  REQUIRE(shell(folder, "tar -xzOf out/held.tgz --wildcards 'held/*/steps.csv' | grep -c stream") ==
          0);
  CHECK(std::stoi(folder.read("out.txt")) >= 40 * 30);
}

TEST_CASE("a phase that is killed costs itself, and a question that it ends has no good answer") {
  const TemporaryFolder folder;
  // Questions 0, 1 and 11 launch no graph; benchmarks do, and the canary of replays.
  CHECK(visit(folder, "STANDIN_FAULT=cudaGraphLaunch:1:kill") == 1);
  check_says(folder, "out/log.txt",
             {"ok  11 events", "with --mode stream", "no calibration, and the rehearsal in place",
              "rehearsal: exit code 137"});
  CHECK(names_in(folder.file("out")) == all_files);
}

TEST_CASE("a GPU lost in each phase costs what ran, and the exit code says so") {
  const TemporaryFolder folder;
  CHECK(visit(folder, "STANDIN_FAULT=cudaGraphLaunch:60:700:sticky") == 1);
  CHECK(says(folder, "out/log.txt", "measure: exit code 3"));
  CHECK(names_in(folder.file("out")) == all_files);
}

TEST_CASE("no time is left for a phase: the others are home, and the exit code says so") {
  const TemporaryFolder folder;
  CHECK(visit(folder, "VISIT_SECONDS=9") == 1);
  CHECK(says(folder, "out/log.txt", "no time left"));
  CHECK(names_in(folder.file("out")).contains("log.txt"));
}

TEST_CASE("whether there is a GPU is asked of the harness alone") {
  const TemporaryFolder folder;
  CHECK(visit(folder, "STANDIN_FAULT=cudaGetDeviceCount:0:35") == 77);
  CHECK(says(folder, "out/log.txt", "no GPU here that a harness could use"));
}

TEST_CASE("wrong arguments are refused before anything runs") {
  const TemporaryFolder folder;
  const std::string script = "bash " + source_dir() + "/validate/cuda/visit.sh ";
  CHECK(shell(folder, script + "out") == 2);
  CHECK(shell(folder, script + "out .") == 2);  // no kit
  folder.write("log.txt", "");
  CHECK(shell(folder, script + ". " + kit()) == 2);  // the folder of another visit
  CHECK(says(folder, "out.txt", "has a visit; take another folder"));
  CHECK(shell(folder, "bash " + source_dir() + "/validate/cuda/kit.sh") == 2);
}
