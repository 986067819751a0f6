#include <doctest/doctest.h>

#include "sim/error.h"
#include "tests/message.h"
#include "tests/scenarios/sweeps.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

const std::string together_base = R"(name: together
graph: {generate: layered, ops: 6, width: 2, seed: 1, training: true}
cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}
placers: [single]
)";

/// The mistakes in a sweep of together_base and `lines`; line 5 is the first of `lines`.
std::string sweep_mistakes(const std::string& lines) {
  return message<InputError>([&] { sweep_of(together_base + lines); });
}

}  // namespace

TEST_SUITE("runner") {
  TEST_CASE("conflicting options are mistakes with their positions, before anything runs") {
    CHECK(sweep_mistakes("") == "no error");
    // The original's simulation has neither lanes nor collectives.
    CHECK(sweep_mistakes("transforms:\n  - host\n") == "no error");
    CHECK(sweep_mistakes("engine: {semantics: baechi}\n") == "no error");
    CHECK(sweep_mistakes("engine: {semantics: baechi}\ntransforms:\n  - host\n") ==
          "test.yaml:7:5: semantics baechi does not support lanes and collectives, and the step "
          "that the "
          "transforms make has them (semantics event does)");
    CHECK(sweep_mistakes("engine: {semantics: baechi}\nmeasure: [{pipeline: {}}]\n") ==
          "test.yaml:6:11: a pipeline needs the engine's own semantics, event");
    CHECK(sweep_mistakes("transforms:\n  - host: {threads: one}\nmeasure: [{pipeline: {}}]\n") ==
          "test.yaml:7:11: no pipeline by gpipe: host: each stage needs a thread: threads: device");
    // 1 B in 10 s: a step fits into 146 years, and so do few micro-batches.
    const std::string slow =
        "measure: [{pipeline: {micro_batches: [1, 100000]}}]\n"
        "sweep: {cluster.link.bandwidth: [0.1 B/s]}\n";
    const std::string mistake = sweep_mistakes(slow);
    CHECK(
        mistake.starts_with("test.yaml:5:11: a step of 100000 micro-batches could take more than "
                            "146 years: link gpu0-gpu1"));
    CHECK(mistake.find('\n') == std::string::npos);
  }

  TEST_CASE("the nodes of a collective must be those of the cluster") {
    // 8 replicas on 8 machines have a link each; on 2 machines, 4 of them share something
    // undefined.
    const auto replicas = [](const char* nodes) {
      return sweep_mistakes(
          fmt::format("transforms:\n  - data_parallel: {{gradients: 1, nodes: {}}}\n", nodes));
    };
    CHECK(replicas("1") == "no error");
    CHECK(replicas("8") == "no error");
    CHECK(replicas("2") ==
          "test.yaml:6:5: all_reduce of 8 ranks on 2 machines: the cluster describes no machines "
          "with several devices (cluster.nodes)");
  }
}
