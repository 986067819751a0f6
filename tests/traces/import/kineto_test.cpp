// The importer `kineto` on a hand-written step of two ranks and on public recordings.

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/import/kineto/recording.h"

namespace {

std::string event(std::string_view category, std::string_view name, int start, int duration,
                  std::string_view args = "{}") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}, "args": {}}})",
      category, name, start, duration, args);
}
std::string profiler_step(int number, int start, int duration) {
  return event("user_annotation", fmt::format("ProfilerStep#{}", number), start, duration);
}
std::string call(std::string_view name, int correlation, int start, int duration) {
  return event("cuda_runtime", name, start, duration,
               fmt::format(R"({{"correlation": {}}})", correlation));
}
std::string launch(int correlation, int start, int duration) {
  return call("cudaLaunchKernel", correlation, start, duration);
}
std::string kernel(int correlation, int stream, int start, int duration) {
  return event(
      "kernel", fmt::format("k{}", correlation), start, duration,
      fmt::format(R"({{"correlation": {}, "device": 0, "stream": {}}})", correlation, stream));
}
Trace recorded(const std::vector<std::string>& events,
               std::map<std::string, std::string> given = {}) {
  std::map<std::string, Options::Value> values;
  for (const auto& [key, text] : given) values[key] = {text, ""};
  TextFile file("x.json", fmt::format(R"({{"traceEvents": [{}]}})", fmt::join(events, ",\n")));
  return read_trace(file, "kineto", Options("kineto", std::move(values)));
}

Duration compute(const OpGraph& graph, std::uint32_t v) { return graph.op(OpId{v}).compute; }

}  // namespace

TEST_SUITE_BEGIN("kineto");
// us       1000   1020  1035   1055 1060                    1090  1100
// host      [launch][launch][ launch ][ ] cudaDeviceSynchronize [2][ 10 ]
// stream 7        [ gemm 1022-1042 ][relu 1043-1053]
// stream 20                            [ all_reduce 1056-1088 ]
TEST_CASE("a step consists of host ops between launches and of the streams' work") {
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
  CHECK(compute(g, 7) == 2us);  // 1088 to 1090: the time after the all_reduce
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
  CHECK(has_note(trace, "3 of 3 kernels, copies and fills matched to their launches"));
}

TEST_CASE("host ops are colocated with the busiest GPU, whatever its number") {
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

TEST_CASE("level op without host: the kernels of an operator are one op") {
  const Trace trace =
      imported(seed("kineto/rank0.json"), "kineto", {{"level", "op"}, {"host", "false"}});
  REQUIRE(trace.graph.num_ops() == 2);
  CHECK(trace.graph.kind(OpId{0}) == "linear");
  CHECK(compute(trace.graph, 0) == 31us);
}

// us     100  200           300     350    400           1100
// host        [ linear       ] [ block: [relu ] ]
//                [ mm ]
TEST_CASE("without a GPU a step consists of its outermost ops") {
  const std::vector<std::string> events{profiler_step(0, 100, 1000),
                                        event("cpu_op", "aten::mm", 50, 40),
                                        event("cpu_op", "aten::linear", 200, 100),
                                        event("cpu_op", "aten::mm", 210, 80),
                                        event("user_annotation", "block", 300, 400),
                                        event("cpu_op", "aten::relu", 350, 50),
                                        event("cpu_op", "aten::sum", 1100, 50)};
  const auto ops = [](const Trace& trace) {
    std::string all;
    for (const OpId v : trace.graph.ops())
      all += fmt::format("{} {} {} after {}; ", trace.graph.name(v), trace.graph.kind(v),
                         to_text(trace.graph.op(v).compute),
                         fmt::join(trace.graph.predecessors(v) | std::views::transform([](OpId p) {
                                     return static_cast<std::uint32_t>(p);
                                   }),
                                   ","));
    return all;
  };
  CHECK(ops(recorded(events)) ==
        "linear.0 linear 200.000 us after ; block/relu.1 relu 100.000 us after 0; "
        "end of the step.2 Host 700.000 us after 1; ");
  CHECK(ops(recorded(events, {{"host", "false"}})) ==
        "linear.0 linear 100.000 us after ; block/relu.1 relu 50.000 us after 0; ");
}

// us        10 12   20    30    40      60  70 72
// host      [ conv: A   B  copy   C       ] [ add: D ]
// stream 7    [A 20-40][B 42-62][copy 65-75][C 80-90][D 95-105]
TEST_CASE("level op: work of one op that follows itself in a stream is one op, but for copies") {
  const auto kinds = [](bool waits) {
    std::vector<std::string> events{
        profiler_step(0, 0, 1000),
        event("cpu_op", "aten::conv", 10, 50),
        launch(1, 12, 3),
        kernel(1, 7, 20, 20),
        launch(2, 20, 3),
        kernel(2, 7, 42, 20),
        call("cudaMemcpyAsync", 3, 30, 3),
        event("gpu_memcpy", "Memcpy DtoD", 65, 10,
              R"({"correlation": 3, "device": 0, "stream": 7, "bytes": 64})"),
        launch(4, 40, 3),
        kernel(4, 7, 80, 10),
        event("cpu_op", "aten::add", 70, 10),
        launch(5, 72, 3),
        kernel(5, 7, 95, 10)};
    if (waits)  // B also waits for a kernel of stream 9
      events.insert(events.end(),
                    {launch(6, 16, 1), kernel(6, 9, 25, 5), call("cudaEventRecord", 7, 17, 1),
                     call("cudaStreamWaitEvent", 8, 18, 1)});
    const OpGraph g = recorded(events, {{"level", "op"}}).graph;
    std::string all;
    for (const OpId v : g.ops())
      if (g.lane(v) == compute_lane)
        all += fmt::format("{} {}; ", g.kind(v), to_text(g.op(v).compute));
    return all;
  };
  // Gaps of 2, 3, 5 and 5 us before queued work are the stream's own.
  CHECK(kinds(false) == "conv 42.000 us; Copy 13.000 us; conv 15.000 us; add 15.000 us; ");
  CHECK(kinds(true) ==
        "conv 20.000 us; conv 22.000 us; Copy 13.000 us; conv 15.000 us; add 15.000 us; ");
}

TEST_CASE("collectives of two ranks are matched") {
  const Trace trace = imported(seed("kineto/rank1.json"), "kineto", {{"ranks", "rank*.json"}});
  const OpGraph& g = trace.graph;
  CHECK(g.num_ops() == 18);
  CHECK(g.num_groups() == 2);
  REQUIRE(g.collectives().size() == 1);
  CHECK(g.collectives()[CollectiveId{0}].members == 2);
  CHECK_THROWS_WITH_AS(imported(seed("kineto/rank1.json"), "kineto", {{"ranks", "gpu*.json"}}),
                       "kineto.ranks: 'gpu*.json' does not match rank1.json itself", InputError);
  CHECK_THROWS_WITH_AS(
      imported(seed("kineto/rank1.json"), "kineto", {{"ranks", "./rank*.json"}}),
      "kineto.ranks: './rank*.json' does not match rank1.json itself: give file names "
      "without a folder, they are in the folder of this file",
      InputError);
}

// us       0    100   200   300  320           620           920
// host     [ L  ][ L  ][ L  ]        L: a launch from 10 to 15 of the step
// stream 7 .[        1       ][      2      ][      3      ]
// The host takes 100 us per step, the GPU 300: it sets the period.
TEST_CASE("if the GPU lags behind the host, the step time is the period of steps") {
  std::vector<std::string> events;
  for (const int k : {0, 1, 2}) {
    events.push_back(profiler_step(k, 100 * k, 100));
    events.push_back(launch(k + 1, 100 * k + 10, 5));
    events.push_back(kernel(k + 1, 7, k == 0 ? 20 : 20 + 300 * k, 300));
  }
  const Trace trace = recorded(events);
  CHECK(has_note(trace, "ProfilerStep#2: 300.000 us as recorded"));
  CHECK(critical_path(trace.graph) == 300us);
  CHECK_FALSE(has_note(trace, "warning: replayed"));
  // Step 2 is from the end of step 1's kernel at 320 us to the end of its own at 620. Its host
  // time is in the step before.
  const Trace second = recorded(events, {{"step", "2"}});
  CHECK(has_note(second, "ProfilerStep#1: 300.000 us as recorded"));
  REQUIRE(second.graph.num_ops() == 1);
  CHECK(compute(second.graph, 0) == 300us);
}

// us        0 5  15  25  35 40                                  810   1000
// host      [A][B][C ][D ] [      cudaDeviceSynchronize          ]
// stream 7    [A 10-100]              [C 515-600]   [D 700-800]
// stream 20   [      B 20-500       ]
TEST_CASE("a kernel that begins late waits for what ended before it, or for what is not known") {
  const Trace trace =
      recorded({profiler_step(0, 0, 1000), launch(1, 0, 5), kernel(1, 7, 10, 90), launch(2, 10, 5),
                kernel(2, 20, 20, 480), launch(3, 20, 5), kernel(3, 7, 515, 85), launch(4, 30, 5),
                kernel(4, 7, 700, 100), call("cudaDeviceSynchronize", 9, 40, 770)});
  const OpGraph& g = trace.graph;
  const auto op = [&](std::string_view name) { return *g.find(name); };
  const OpId b = op("cudaLaunchKernel/k2.3"), c = op("cudaLaunchKernel/k3.5"), idle = op("idle.7"),
             d = op("cudaLaunchKernel/k4.8");
  const auto reads = [&](OpId after, OpId before) {
    return std::ranges::find(g.predecessors(after), before) != g.predecessors(after).end();
  };
  CHECK(reads(c, b));
  CHECK(g.op(c).compute == 100us);  // 85, and 15 since B
  CHECK(g.op(idle).compute == 100us);
  CHECK(g.kind(idle) == "Idle");
  CHECK(reads(d, idle));
  CHECK(has_note(trace, "100.000 us of stream idle time without a recorded cause"));
  // B 15-495 (it began 5 us after its launch), C -595, idle -695, D -795; the host's wait takes
  // 10 us beyond D, the rest of the step 190.
  CHECK(critical_path(g) == 995us);
}

// Stream 7: k1 [10-100], k3 from `start` on; stream 9: k2 [20-`ended`].
TEST_CASE("up to 10 us between kernels are the stream's own, up to 30 us wait for another's") {
  const auto third = [](int ended, int start) {
    const OpGraph g =
        recorded({profiler_step(0, 0, 1000), launch(1, 0, 5), kernel(1, 7, 10, 90), launch(2, 8, 2),
                  kernel(2, 9, 20, ended - 20), launch(3, 12, 2), kernel(3, 7, start, 50)})
            .graph;
    std::pair<Duration, bool> found;  // of k3; whether the stream is idle
    for (const OpId v : g.ops()) {
      if (g.name(v).find("k3") != std::string_view::npos) found.first = g.op(v).compute;
      found.second |= g.kind(v) == "Idle";
    }
    return found;
  };
  CHECK(third(90, 110) == std::pair<Duration, bool>(60us, false));
  CHECK(third(90, 111) == std::pair<Duration, bool>(50us, true));
  CHECK(third(200, 230) == std::pair<Duration, bool>(80us, false));
  CHECK(third(200, 231) == std::pair<Duration, bool>(50us, true));
}

// 60 launches of 5 us, and one of 205 us while the stream has work: the queue was full.
TEST_CASE("a launch that waits for room in the queue is no work of the host's") {
  std::vector<std::string> events{profiler_step(0, 0, 1000)};
  for (int k = 1; k <= 60; ++k) {
    events.push_back(launch(k, 5 * k, 5));
    events.push_back(kernel(k, 7, 10 * k, 10));
  }
  events.push_back(launch(61, 305, 205));
  events.push_back(kernel(61, 7, 610, 10));
  const OpGraph g = recorded(events).graph;
  Duration launches{}, waits{};
  for (const OpId v : g.ops()) {
    if (g.kind(v) == "Launch") launches += g.op(v).compute;
    if (g.kind(v) == "Wait") waits += g.op(v).compute;
  }
  CHECK(launches == 310us);  // the first after 5 us
  CHECK(waits == 0us);       // 510 us: when kernel 50 ended
}

TEST_CASE("ROCm writes numbers as strings") {
  const Trace trace =
      recorded({profiler_step(0, 0, 100), call("hipMemcpyAsync", 1, 5, 3),
                R"({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, )"
                R"("tid": 7, "ts": 20, "dur": 10, "args": {"correlation": "1", )"
                R"("device": 0, "stream": "7", "bytes": "256"}})"});
  Bytes copied{};
  for (const OpId v : trace.graph.ops()) copied += trace.graph.work(v).traffic;
  CHECK(copied == Bytes{256});
}

// PyTorch 1.8 to 1.11: Operator, Runtime, Kernel, Memcpy, Memset.
TEST_CASE("old names of categories are read; unknown ones on a GPU are no CPU profile") {
  const auto step = [](bool old) {
    const std::string op = old ? "Operator" : "cpu_op", call_of = old ? "Runtime" : "cuda_runtime";
    const auto on_gpu = [](std::string_view category, int correlation, int start, int duration) {
      return event(category, "w", start, duration,
                   fmt::format(R"({{"correlation": {}, "device": 0, "stream": 7}})", correlation));
    };
    return std::vector<std::string>{
        event(op, "ProfilerStep#0", 0, 100),
        event(op, "aten::mm", 2, 50),
        event(call_of, "cudaLaunchKernel", 5, 5, R"({"correlation": 1})"),
        event(call_of, "cudaMemcpyAsync", 15, 5, R"({"correlation": 2})"),
        event(call_of, "cudaMemsetAsync", 25, 5, R"({"correlation": 3})"),
        on_gpu(old ? "Kernel" : "kernel", 1, 20, 20),
        on_gpu(old ? "Memcpy" : "gpu_memcpy", 2, 40, 9),
        on_gpu(old ? "Memset" : "gpu_memset", 3, 50, 3)};
  };
  const Trace then = recorded(step(true)), now = recorded(step(false));
  CHECK(has_note(then, "3 of 3 kernels, copies and fills"));
  REQUIRE(then.graph.num_ops() == now.graph.num_ops());
  for (const OpId v : now.graph.ops()) {
    CHECK(then.graph.name(v) == now.graph.name(v));
    CHECK(then.graph.op(v).compute == now.graph.op(v).compute);
  }
  const auto on_device = [](std::string_view category) {
    TextFile file("x.json", fmt::format(R"({{"deviceProperties": [{{"name": "V100"}}],
 "traceEvents": [{}, {}]}})",
                                        profiler_step(0, 0, 100), event(category, "k", 5, 9)));
    return read_trace(file, "kineto");
  };
  CHECK(message<InputError>([&] { on_device("Tile"); })
            .find("category 'Tile' is not known: kernels, copies and fills of a recording of "
                  "'V100'") != std::string::npos);
  CHECK(message<InputError>([&] {  // what runs on a stream is no CPU profile, whatever the device
          recorded({profiler_step(0, 0, 100), event("Tile", "k", 5, 9, R"({"stream": 7})")});
        })
            .find("category 'Tile' is not known") != std::string::npos);
  CHECK(has_note(on_device("cpu_op"), "no kernels"));
}

// Stream 7 [20-220], 9 [30-90], 8 [222-522]; the host waits until 640. Stream 8's wait is for 7
// or for 9; both were launched before it.
TEST_CASE("recorded waits say which stream waits for which; times do not add others") {
  const auto step = [](int awaited, int record) {
    return std::vector<std::string>{
        profiler_step(0, 0, 1000),
        launch(1, 10, 2),
        kernel(1, 7, 20, 200),
        call("cudaEventRecord", 3, 14, 2),
        launch(2, 20, 2),
        kernel(2, 9, 30, 60),
        call("cudaEventRecord", 4, 30, 2),
        call("cudaStreamWaitEvent", 5, 35, 2),
        event("cuda_sync", "Stream Wait Event", 37, 0,
              fmt::format(R"({{"device": 0, "stream": 8, "correlation": 5, "wait_on_stream": {},
                     "wait_on_cuda_event_record_corr_id": {}}})",
                          awaited, record)),
        launch(6, 40, 2),
        kernel(6, 8, 222, 300),
        call("cudaDeviceSynchronize", 7, 50, 590)};
  };
  const auto waits = [](const Trace& trace, int before, int work = 6) {
    const OpGraph& g = trace.graph;
    OpId third{}, awaited{};
    for (const OpId v : g.ops()) {
      if (g.name(v).find(fmt::format("k{}", work)) != std::string_view::npos) third = v;
      if (g.name(v).find(fmt::format("k{}.", before)) != std::string_view::npos) awaited = v;
    }
    return std::ranges::find(g.predecessors(third), awaited) != g.predecessors(third).end();
  };
  const Trace of_7 = recorded(step(7, 3));
  CHECK(waits(of_7, 1));
  CHECK_FALSE(waits(of_7, 2));
  CHECK_FALSE(has_note(of_7, "idle"));
  // 132 us between the end of 9's kernel and the start are no wait for stream 7.
  const Trace of_9 = recorded(step(9, 4));
  CHECK_FALSE(waits(of_9, 1));
  CHECK(has_note(of_9, "132.000 us of stream idle time"));
  // Without the number of the record: the last launch in stream 7 before the wait.
  CHECK(waits(recorded(step(7, -1)), 1));
  // A kernel without a recorded wait, behind k1 by chance: waits of this recording are known.
  std::vector<std::string> more = step(7, 3);
  more.insert(more.end(), {launch(8, 45, 2), kernel(8, 10, 224, 50)});
  CHECK_FALSE(waits(recorded(more), 1, 8));
}

// k1 [20-120] is recorded until 170, 50 us beyond the start of k2.
TEST_CASE("a kernel that runs beyond the start of the next one of its stream is cut, and named") {
  const Trace trace = recorded({profiler_step(0, 0, 300), launch(1, 5, 5), kernel(1, 7, 20, 150),
                                launch(2, 12, 5), kernel(2, 7, 120, 100)});
  CHECK(has_note(trace,
                 "warning: 1 kernels, copies or fills end after the next one of their "
                 "stream began; 50.000 us are cut off, most of them 50.000 us of 'k1'"));
  Duration kernels{};
  for (const OpId v : trace.graph.ops())
    if (trace.graph.lane(v) == compute_lane) kernels += trace.graph.op(v).compute;
  CHECK(kernels == 200us);
}

// Stream 7: k1 [20-40], a kernel of 10 us from 42 whose launch is not recorded, k2 [60-70].
TEST_CASE("a kernel without a recorded launch waits for its stream alone") {
  const OpGraph g = recorded({profiler_step(0, 0, 100), launch(1, 5, 5), kernel(1, 7, 20, 20),
                              kernel(9, 7, 42, 10), launch(2, 12, 5), kernel(2, 7, 60, 10)})
                        .graph;
  const auto with = [&](const char* word) {
    OpId found{};
    for (const OpId v : g.ops())
      if (g.name(v).find(word) != std::string_view::npos) found = v;
    return found;
  };
  REQUIRE(g.predecessors(with("k9")).size() == 1);
  CHECK(g.predecessors(with("k9")).front() == with("k1."));
  CHECK(g.op(with("k9")).compute == 12us);  // 2 since k1
  CHECK(std::ranges::count(g.predecessors(with("k2")), with("k9")) == 1);
}

// Each call is within the previous one; the innermost launches a kernel.
TEST_CASE("calls may nest 100,000 deep in linear time") {
  constexpr int deep = 100'000;
  std::vector<std::string> events{profiler_step(0, 0, 3 * deep)};
  for (int k = 0; k < deep; ++k)
    events.push_back(event("user_annotation", "f", k, 3 * deep - 2 * k));
  for (int k = 0; k < 1000; ++k) {
    events.push_back(launch(k + 1, deep + 10 * k, 5));
    events.push_back(kernel(k + 1, 7, deep + 10 * k + 6, 3));
  }
  const OpGraph g = recorded(events).graph;
  CHECK(g.module(OpId{0}).size() == 64 + 63);  // f.f. ... .f, the innermost 64
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
