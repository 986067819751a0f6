// The importer `kineto` on deep nesting and on public recordings.

#include <nlohmann/json.hpp>

#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/import/kineto/recording.h"

TEST_SUITE_BEGIN("kineto");
// Each call is within the previous one; the innermost launches a kernel.
TEST_CASE("calls may nest 100,000 deep in linear time") {
  constexpr int deep = 100'000;
  std::string events;
  const auto add = [&](const char* category, int start, int duration, int correlation) {
    events += fmt::format(
        R"({}{{"ph": "X", "cat": "{}", "name": "{}", "ts": {}, "dur": {}, "args": {{"correlation": {}}}}})",
        events.empty() ? "" : ",\n", category,
        category == std::string_view("python_function") ? "nn.Module: m" : "f", start, duration,
        correlation);
  };
  for (int k = 0; k < deep; ++k) add("user_annotation", k, 3 * deep - 2 * k, 0);
  for (int k = 0; k < 100; ++k) add("python_function", k, 3 * deep, 0);
  for (int k = 0; k < 1000; ++k) {
    add("cuda_runtime", deep + 10 * k, 5, k + 1);
    add("kernel", deep + 10 * k + 6, 3, k + 1);
  }
  TextFile file("x.json", "[" + events + "]");
  const OpGraph g = read_trace(file, "kineto").graph;
  // f.f. ... .f.m.m. ... .m: the innermost 64 annotations and the outermost 64 modules.
  CHECK(g.module(OpId{0}).size() == 64 + 63 + 1 + 64 + 63);
}

TEST_CASE("public recordings: all kernels and their times, by an independent count") {
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
  // Periods by an independent script, from the end of work launched before a step to that of the
  // next: 348.077 ms (the whole recording), 27.154 ms (the last of 40).
  const Trace vgg = imported((*data / "triosim/vgg13_h100.kineto.json.zst").string(), "kineto");
  CHECK(critical_path(vgg.graph) > 346'300us);
  CHECK(critical_path(vgg.graph) < 349'800us);
  CHECK(has_note(vgg,
                 "325 of 325 kernels, copies and fills matched to their launches, 346.370 ms of "
                 "346.370 ms"));
  const Trace linear =
      imported((*data / "traces/public/param/linear_kineto.json.gz").string(), "kineto");
  CHECK(critical_path(linear.graph) > 27'018us);
  CHECK(critical_path(linear.graph) < 27'290us);
  // The GPU ends the previous step 106 ms after the host began this one: 154.010 ms.
  const Trace resnet = imported((*data / "traces/public/param/resnet_kineto.json.gz").string(),
                                "kineto", {{"step", "5"}});
  CHECK(critical_path(resnet.graph) > 153'240us);
  CHECK(critical_path(resnet.graph) < 154'780us);
}
