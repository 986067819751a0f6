/// What of validate/torch_partitions.py needs no GPU.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/temporary_folder.h"
#include "tests/this_build.h"

using baechi::testing::source_dir;
using baechi::testing::TemporaryFolder;

namespace {

int shell(const TemporaryFolder& folder, const std::string& command) {
  const std::string whole = "cd '" + folder.file("") +
                            "' && export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + source_dir() +
                            "/validate && " + command + " >said.txt 2>&1";
  const int status = std::system(whole.c_str());  // NOLINT(concurrency-mt-unsafe)
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_SUITE("torch_partitions") {
  TEST_CASE("it says how it is used, and refuses wrong flags and machines without a GPU") {
    const TemporaryFolder folder;
    const std::string script = "python3 -m torch_partitions";
    CHECK(shell(folder, script + " --help") == 0);
    CHECK(folder.read("said.txt").starts_with("usage: torch_partitions.py OUT"));
    CHECK(shell(folder, script + " out --models alexnet") == 2);
    CHECK(folder.read("said.txt").find("'alexnet' is none of resnet, bert, gpt2") !=
          std::string::npos);
    CHECK(shell(folder, script + " out --parts 0") == 2);
    CHECK(shell(folder, "env CUDA_VISIBLE_DEVICES= " + script + " out") == 77);
    CHECK(folder.read("said.txt").starts_with("skipped: "));
    CHECK_FALSE(std::filesystem::exists(folder.file("out")));
  }

  TEST_CASE("a step is predicted from the lengths of its tasks, queues and gaps") {
    // Two stages, two micro-batches, 10 us forward, 20 us back. Stage 1 runs forward from 10 to 30,
    // and back from 30 to 70; stage 0 runs back from 50 to 70 and from 70 to 90. A gap of 1 us
    // between parts is passed twice, before stage 1's first task and before stage 0's last.
    const TemporaryFolder folder;
    folder.write(
        "step.py",
        "from torch_partitions import *\n"
        "tasks = tasks_of(2, 2)\n"
        "length = {(k, s): us for k, us in (('forward', 10), ('backward', 20)) for s in (0, 1)}\n"
        "print(len(tasks), step_of(predicted(tasks, length)),\n"
        "      step_of(predicted(tasks, length, cross_gap=1.0)))\n");
    CHECK(shell(folder, "python3 step.py") == 0);
    CHECK(folder.read("said.txt") == "8 90.0 92.0\n");
  }
}
