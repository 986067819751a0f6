#include "tests/prelude.h"
#include "tests/traces/import/recordings.h"

namespace {

const char* const three_models[][2] = {{"resnet50", "resnet50_train_b4"},
                                       {"gnmt_small", "gnmt_small_train"},
                                       {"transformer_small", "transformer_small_train"}};

Trace committed_recording(const std::string& name) {
  return read_trace(source_dir() + "/traces/data/" + name + ".trace.json.zst");
}

/// The options of the committed traces.
const pytorch::Settings as_committed{.optimizer = pytorch::UpdateOrder::as_ready,
                                     .workspace = pytorch::Workspace::op,
                                     .time = pytorch::OpTime::op};

}  // namespace

TEST_SUITE_BEGIN("recorded files");
// The three were converted by an independent Python program that reads the raw events and lets
// updates run as soon as they are ready.
TEST_CASE("recorded steps give the committed traces byte for byte, from raw events") {
  const auto data = shared_data("traces");
  if (!data) return;
  for (const auto& [model, trace] : three_models) {
    CAPTURE(model);
    const std::string path = (*data / "traces" / "recorded" / model).string();
    TextFile kineto("k", kineto_of_events(events_of(read_file(path + ".events.jsonl.zst"))));
    const Trace ours = imported(path + ".eg.json.zst", &kineto, as_committed);
    CHECK_MESSAGE((graph_text(ours) == graph_text(committed_recording(trace))), model);
    CHECK(ours.batch == committed_recording(trace).batch);
    CHECK(noted(ours, "joined by Record function id"));
  }
}

TEST_CASE("and from the profiler's export, which has no allocations and omits some calls") {
  const auto data = shared_data("traces");
  if (!data) return;
  for (const auto& [model, trace] : three_models) {
    CAPTURE(model);
    const auto folder = *data / "traces" / "recorded";
    TextFile kineto((folder / model).string() + ".profiler.json.zst");
    const Trace ours = imported((folder / model).string() + ".eg.json.zst", &kineto, as_committed);
    CHECK(noted(ours, "joined by order of names"));
    auto text = nlohmann::ordered_json::parse(graph_text(committed_recording(trace)));
    for (auto& entry : text["ops"]) entry["temporary_bytes"] = 0;
    CHECK_MESSAGE((nlohmann::ordered_json::parse(graph_text(ours)) == text), model);
  }
}

// facts.json has the numbers of nodes, of those with a schema, and of leaves among these.
TEST_CASE("execution traces of all versions are read completely") {
  const auto data = shared_data("traces");
  if (!data) return;
  const auto facts = nlohmann::json::parse(read_file((*data / "traces/facts.json").string()));
  std::set<std::string> versions;
  for (const char* file :
       {"public/hta/benchmark_simple_add_et.json.gz", "public/param/linear_et.json.gz",
        "public/param/pt2_et.json.gz", "public/param/resnet_1gpu_et.1.0.3-chakra.json.gz",
        "recorded/resnet50.eg.json.zst", "recorded/transformer_small.eg.json.zst"}) {
    CAPTURE(file);
    TextFile calls((*data / "traces" / file).string());
    const auto trace = pytorch::read_execution_trace(calls);
    const auto& known = facts[file];
    CHECK(trace.schema == known["schema"].get<std::string>());
    versions.insert(trace.schema);
    std::size_t with_schema = 0, leaves = 0;
    std::set<std::int64_t> threads;
    for (const pytorch::Call& call : trace.calls) {
      with_schema += call.is_operator ? 1U : 0U;
      leaves += call.is_operator && call.children.empty() ? 1U : 0U;
      threads.insert(call.thread);
    }
    CHECK(trace.calls.size() + threads.size() + 1 ==
          known["nodes"].get<std::size_t>());  // without frames
    CHECK(with_schema == known["ops_with_schema"].get<std::size_t>());
    CHECK(leaves == known["leaf_ops"].get<std::size_t>());
  }
  CHECK(versions.size() == 3);  // those of 1.0.2 and of one 1.1.1 are in tar archives
}

TEST_CASE("public pairs join completely; files of two runs are rejected") {
  const auto data = shared_data("traces");
  if (!data) return;
  const auto folder = *data / "traces" / "public";
  const auto pair = [&](const char* execution, const char* kineto) {
    TextFile times((folder / kineto).string());
    return imported(folder / execution, &times);
  };
  const Trace linear = pair("param/linear_et.json.gz", "param/linear_kineto.json.gz");
  // 617 on the autograd thread and 311 on the other.
  CHECK(noted(linear, "928 of 928 calls joined by order of names, of 39 runs the one with"));
  // GPU time launched by the threads: 3813 us and 5944 us, by an independent Python script.
  CHECK(noted(linear, "9.757 ms of 9.757 ms"));
  // 21 layers of 1024 x 1024 with biases, plain SGD: no state.
  CHECK(noted(linear, "42 parameters of 88166400 bytes, optimizer state of 0"));
  std::map<std::string, std::size_t> kinds;
  Bytes persistent{};
  for (const OpId v : linear.graph.ops()) {
    ++kinds[std::string(linear.graph.kind(v))];
    persistent += linear.graph.op(v).persistent;
  }
  CHECK(kinds["linear"] == 21);
  CHECK(kinds["mm"] == 2 * 21 - 1);  // no gradient for the samples
  CHECK(kinds["sgd_update"] == 42);
  // Weights, and their gradients: memory from before the step, which the step fills with zeros.
  CHECK(persistent == Bytes{2 * 21L * (1024 * 1024 + 1024) * 4});

  const Trace add =
      pair("hta/benchmark_simple_add_et.json.gz", "hta/benchmark_simple_add_trace.json.gz");
  CHECK(noted(add, "36 of 36 calls joined by External id"));
  CHECK(noted(add, "16.000 us of 16.000 us"));  // its four kernels

  CHECK_THROWS_WITH_AS(
      pair("param/resnet_1gpu_et.1.0.3-chakra.json.gz", "param/resnet_kineto.json.gz"),
      doctest::Contains(
          "of 14388 calls, the following were found, by key: Record function id 0, External id"),
      InputError);
}

TEST_CASE("one of several steps is imported, with collectives and lists of tensors") {
  const auto data = shared_data("traces");
  if (!data) return;
  const auto file = *data / "traces/public/param/resnet_1gpu_et.1.0.3-chakra.json.gz";
  const Trace last = imported(file);
  CHECK(noted(last, "step 3 of 3 in the recording: ProfilerStep#6"));
  // 2 x 26,560 running means and variances of 4 B each, 53 counts of batches of 8 B; 20,384 B are
  // DDP's buckets of gradients.
  CHECK(noted(last,
              "161 parameters of 102228128 bytes, optimizer state of 102228128, statistics "
              "and frozen weights of 233288"));
  CHECK(noted(last, "7 collectives"));
  std::map<std::string, std::size_t> kinds;
  for (const OpId v : last.graph.ops()) ++kinds[std::string(last.graph.kind(v))];
  CHECK(kinds["conv2d"] == 53);
  CHECK(kinds["convolution_backward"] == 53);
  CHECK(kinds["sgd_update"] == 161);
  CHECK(kinds["input"] == 2);
  const Trace second = imported(file, nullptr, {.step = 2});
  CHECK(second.graph.num_ops() == last.graph.num_ops());
  CHECK_THROWS_WITH_AS(imported(file, nullptr, {.step = 4}),
                       doctest::Contains("step 4: the recording has 3"), InputError);
}

TEST_CASE("the outputs of a Triton kernel are its new tensors") {
  const auto data = shared_data("traces");
  if (!data) return;
  const OpGraph g = imported(*data / "traces/public/param/pt2_et.json.gz").graph;
  // mm(a, b), whose result a fused kernel reads with another input; that gives two more.
  CHECK(edges(g) == std::set<std::string>{"input_1 -> mm_1 64",
                                          "input_2 -> triton_poi_fused_add_cos_neg_sin_0_1 64",
                                          "mm_1 -> triton_poi_fused_add_cos_neg_sin_0_1 64"});
  CHECK(g.outputs(g.find("triton_poi_fused_add_cos_neg_sin_0_1").value()).size() == 2);
}
