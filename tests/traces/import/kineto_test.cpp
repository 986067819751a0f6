// The importer `kineto`: a step of two ranks that can be followed by hand, and public recordings.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/graph/analysis.h"
#include "tests/shared_data.h"
#include "tests/traces/import/imported.h"
#include "traces/format/compressed_file.h"
#include "traces/import/kineto/recording.h"

using namespace baechi;
using namespace baechi::testing;
using namespace std::chrono_literals;

namespace {

Duration compute(const OpGraph& graph, std::uint32_t v) {
  return graph.op(OpId{v}).compute;
}

}  // namespace

TEST_SUITE("kineto") {
  // us       1000   1020  1035   1055 1060                    1090  1100
  // host      [launch][launch][ launch ][ ] cudaDeviceSynchronize [2][ 10 ]
  // stream 7        [ gemm 1022-1042 ][relu 1043-1053]
  // stream 20                            [ all_reduce 1056-1088 ]
  TEST_CASE("a step is what the host did between launches, and what the streams ran") {
    const Trace trace = imported(seed("kineto/rank0.json"), "", {});
    CHECK(trace.format == "kineto");
    const OpGraph& g = trace.graph;
    REQUIRE(g.num_ops() == 9);
    CHECK(g.name(OpId{0}) == "Net_0.Linear_0/linear/launch.0");
    CHECK(g.name(OpId{1}) == "Net_0.Linear_0/linear/gemm.1");
    CHECK(compute(g, 0) == 20us);
    CHECK(compute(g, 1) == 20us);
    CHECK(compute(g, 2) == 15us);
    CHECK(compute(g, 3) == 11us);  // it was queued: 1 us passed between the kernels
    CHECK(compute(g, 4) == 20us);
    CHECK(compute(g, 6) == 5us);  // until the host waits
    CHECK(compute(g, 7) == 2us);  // 1088 to 1090: what it took beyond the all_reduce
    CHECK(compute(g, 8) == 10us);
    CHECK(g.lanes()[static_cast<std::size_t>(g.lane(OpId{1}))] == "compute");
    CHECK(g.lanes()[static_cast<std::size_t>(g.lane(OpId{4}))] == "host");
    CHECK(g.lanes()[static_cast<std::size_t>(g.lane(OpId{5}))] == "comm");
    REQUIRE(g.collectives().size() == 1);
    const Collective& sum = g.collectives()[CollectiveId{0}];
    CHECK(sum.kind == CollectiveKind::all_reduce);
    CHECK(sum.bytes == Bytes{262144 * 4});
    CHECK(sum.ranks == 2);
    CHECK(sum.members == 1);
    CHECK(has_note(trace, "ProfilerStep#3: 100.000 us as recorded"));
    CHECK(has_note(trace, "3 of 3 kernels, copies and fills joined to their launches"));
  }

  TEST_CASE("the host stands with the GPU that runs most, whatever its number") {
    std::string text = read_file(seed("kineto/rank0.json"));
    for (std::size_t at = 0; (at = text.find("\"device\": 0", at)) != std::string::npos; ++at)
      text[at + 10] = '3';
    TextFile file("gpu3.json", text);
    const Trace trace = read_trace(file, "kineto");
    CHECK(trace.graph.num_ops() == 9);
    CHECK(trace.graph.num_groups() == 1);
  }

  TEST_CASE("with recorded collectives the critical path is the recorded step") {
    // gemm 20-40, relu -51; the all_reduce's launch ends at 55, it at 87; then 2 and 10 us. The
    // kernel began 1 us after its launch, which is all that is lost of 100 us.
    const Trace trace = imported(seed("kineto/rank0.json"), "kineto", {{"collectives", "false"}});
    CHECK(trace.graph.collectives().empty());
    CHECK(critical_path(trace.graph) == 99us);
  }

  TEST_CASE("level op and no host: the kernels of an operator are one op") {
    const Trace trace =
        imported(seed("kineto/rank0.json"), "kineto", {{"level", "op"}, {"host", "false"}});
    REQUIRE(trace.graph.num_ops() == 2);
    CHECK(trace.graph.kind(OpId{0}) == "linear");
    CHECK(compute(trace.graph, 0) == 31us);
  }

  TEST_CASE("collectives of two ranks are one, with a member of each") {
    const Trace trace = imported(seed("kineto/rank1.json"), "kineto", {{"ranks", "rank*.json"}});
    const OpGraph& g = trace.graph;
    CHECK(g.num_ops() == 18);
    CHECK(g.num_groups() == 2);
    REQUIRE(g.collectives().size() == 1);
    CHECK(g.collectives()[CollectiveId{0}].members == 2);
    CHECK_THROWS_WITH_AS(imported(seed("kineto/rank1.json"), "kineto", {{"ranks", "gpu*.json"}}),
                         "kineto.ranks: 'gpu*.json' does not describe rank1.json itself",
                         InputError);
    CHECK_THROWS_WITH_AS(imported(seed("kineto/rank1.json"), "kineto", {{"ranks", "./rank*.json"}}),
                         "kineto.ranks: './rank*.json' does not describe rank1.json itself: give "
                         "names alone, they are looked for in its folder",
                         InputError);
  }

  TEST_CASE("public recordings: all kernels and their times, as counted without this program") {
    const auto data = shared_data();
    if (!data) return;
    const auto facts = nlohmann::json::parse(read_file((*data / "traces/facts.json").string()));
    for (const std::string name :
         {"public/hta/benchmark_simple_add_trace.json.gz", "public/param/linear_kineto.json.gz",
          "public/param/resnet_kineto.json.gz"}) {
      CAPTURE(name);
      TextFile file((*data / "traces" / name).string());
      const kineto::Recording r = kineto::read_recording(file);
      std::map<std::string, std::int64_t> counted;
      Duration kernels{};
      for (const kineto::DeviceWork& work : r.work) {
        const bool kernel = work.kind == kineto::WorkKind::kernel;
        ++counted[kernel                                ? "kernel/X"
                  : work.kind == kineto::WorkKind::copy ? "gpu_memcpy/X"
                                                        : "gpu_memset/X"];
        if (kernel) kernels += work.duration;
      }
      std::int64_t ops = 0, annotations = 0, runtime = 0;
      for (const kineto::Call& call : r.calls) {
        ops += call.kind == kineto::CallKind::op ? 1 : 0;
        annotations += call.kind == kineto::CallKind::annotation ? 1 : 0;
        runtime += call.kind == kineto::CallKind::runtime ? 1 : 0;
      }
      const auto& known = facts[name]["by_cat_ph"];
      for (const auto& [kind, count] : counted) CHECK(count == known[kind]);
      CHECK(ops == known["cpu_op/X"]);
      CHECK(annotations == known["user_annotation/X"]);
      CHECK(runtime == known["cuda_runtime/X"]);
      CHECK(kernels.count() == facts[name]["kernel_us_sum"].get<std::int64_t>() * 1000);
    }
  }

  TEST_CASE("public recordings: the critical path is the recorded step within 0.5 %") {
    const auto data = shared_data();
    if (!data) return;
    // Recorded steps: 348.077 ms, 27.513 ms (the last of 40).
    const Trace vgg = imported((*data / "triosim/vgg13_h100.kineto.json.zst").string(), "kineto");
    CHECK(critical_path(vgg.graph) > 346'300us);
    CHECK(critical_path(vgg.graph) < 349'800us);
    CHECK(has_note(vgg,
                   "325 of 325 kernels, copies and fills joined to their launches by "
                   "correlation, 346.370 ms of 346.370 ms"));
    const Trace linear =
        imported((*data / "traces/public/param/linear_kineto.json.gz").string(), "kineto");
    CHECK(critical_path(linear.graph) > 27'375us);
    CHECK(critical_path(linear.graph) < 27'650us);
    // A copy of 21 ms begins while its call, which waited for the step before, goes on: 259.793 ms.
    const Trace resnet = imported((*data / "traces/public/param/resnet_kineto.json.gz").string(),
                                  "kineto", {{"step", "5"}});
    CHECK(critical_path(resnet.graph) > 258'500us);
    CHECK(critical_path(resnet.graph) < 261'100us);
  }
}
