#include "scenarios/learned/trainer.h"

#include <doctest/doctest.h>

#include "sim/hash.h"
#include "tests/scenarios/sweeps.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"
#include "traces/format/compressed_file.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

// As scenarios/learned/train.yaml, with two graphs.
constexpr const char* two_graphs = R"(
name: two_graphs
graph: {generate: cells, level: module, seed: 1, size: 0.6}
cluster: {devices: {count: 4, kind: v100_fp32, memory: 14.9 GiB}, link: {kind: pcie3_host}}
placers: [single]
sweep: {graph.generate: [cells, blocks]}
)";

std::string weights_in(const std::string& policy) {
  return policy.substr(policy.find("\"weights\""));
}

}  // namespace

TEST_SUITE("trainer") {
  // Graphs, heuristics, the search that teaches, the network and its training decide the weights.
  // Where this number changes, the command in scenarios/learned/train.yaml makes another policy
  // than families.policy: train that one again, or say in placers/learned/README.md that it is of
  // an earlier build, and write the new number here.
  TEST_CASE("a training of two graphs ends with the recorded weights") {
    const TemporaryFolder folder;
    const Sweep sweep = sweep_of(two_graphs);
    const auto objective = make_objective("step_time", Options("step_time"));
    Trainer trainer({.scenario = "two_graphs.yaml",
                     .out = folder.file("t.policy"),
                     .evaluations = 120,
                     .teacher = 30,
                     .seed = 1},
                    training_graphs(sweep, *objective));
    const std::atomic<bool> stop = false;
    CHECK(trainer.train(stop));
    trainer.save();
    Hash hash;
    hash.add(weights_in(folder.read("t.policy")));
    CHECK(hash.value() == 0x950a4b7d067a7c7eU);
  }

  TEST_CASE("the policy that ships says the command that made it") {
    const std::string text =
        read_file(source_dir() + "/scenarios/learned/families.policy").substr(0, 1000);
    const std::string command = read_file(source_dir() + "/scenarios/learned/train.yaml");
    CHECK(text.find("\"scenario\": \"train.yaml\"") != std::string::npos);
    CHECK(text.find("\"evaluations\": 300000, \"seed\": 1,") != std::string::npos);
    CHECK(command.find("--evaluations 300000 --teacher 1000 --seed 1") != std::string::npos);
  }
}
