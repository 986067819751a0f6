#include "tests/prelude.h"
#include "tests/traces/import/recordings.h"

namespace {

OpId op(const OpGraph& graph, std::string_view name) {
  const auto v = graph.find(name);
  REQUIRE_MESSAGE(v.has_value(), name);
  return *v;
}

std::set<std::string> names(const OpGraph& graph) {
  std::set<std::string> all;
  for (const OpId v : graph.ops()) all.emplace(graph.name(v));
  return all;
}

/// The hand-written layer, with updates as soon as their gradients are ready.
Trace layer(const std::string& kineto_text,
            pytorch::Settings settings = {.optimizer = pytorch::UpdateOrder::as_ready}) {
  TextFile kineto("layer.kineto.json", kineto_text);
  return imported(recordings() / "layer.et.json", &kineto, settings);
}

}  // namespace

TEST_SUITE_BEGIN("recordings");
// Linear, Linear, ReLU; each in a frame that a hook made with record_function(name of the
// module), and the last two in the frame of their Sequential, "body". PyTorch 1.13.
TEST_CASE("frames with module names give an op's module") {
  const Trace t = imported(recordings() / "modules.et.json.zst");
  const auto module = [&](std::string_view name) { return t.graph.module(op(t.graph, name)); };
  CHECK(module("linear_1") == "stem");
  CHECK(module("linear_2") == "body.0");
  CHECK(module("relu_1") == "body.1");
  CHECK(module("sum_1").empty());
  CHECK(module("relu_1_grad") == "body.1");
  CHECK(module("linear_2_update") == "body.0");
  CHECK(t.times_elsewhere);
}

// tests/recordings/layer.*: a linear layer y = x w' + b, z = relu(y), the sum of z, its backward
// pass on a second thread, and one call that updates w and b. All numbers have 4 bytes:
//   x 2x3 (24 B), w 4x3 (48 B), b 4 (16 B), y, z and their gradients 2x4 (32 B), the sum 4 B.
//
//   input_1 --> linear_1 --> relu_1 --> sum_1 --> ones_like --> relu_1_grad --> linear_1_grad (w)
//       \                        \----------------------------> /         \---> linear_1_grad_2
//       (b)
//        \--------------------------------------------------------------> linear_1_grad
TEST_CASE("a training step on a GPU has the graph of its calls") {
  const Trace trace = layer(read_file((recordings() / "layer.kineto.json").string()));
  const OpGraph& g = trace.graph;
  CHECK(trace.name == "layer");
  CHECK(names(g) == std::set<std::string>{"input_1", "linear_1", "relu_1", "sum_1",
                                          "relu_1_grad_ones_like", "relu_1_grad", "linear_1_grad",
                                          "linear_1_grad_2", "linear_1_update",
                                          "linear_1_update_2"});
  CHECK(edges(g) == std::set<std::string>{
                        "input_1 -> linear_1 24", "input_1 -> linear_1_grad 24",
                        "linear_1 -> relu_1 32", "relu_1 -> sum_1 32", "relu_1 -> relu_1_grad 32",
                        "sum_1 -> relu_1_grad_ones_like 4",
                        "relu_1_grad_ones_like -> relu_1_grad 4", "relu_1_grad -> linear_1_grad 32",
                        "relu_1_grad -> linear_1_grad_2 32", "linear_1_grad -> linear_1_update 48",
                        "linear_1_grad_2 -> linear_1_update_2 16"});
  // Times of kernels, not of calls; the sum has a kernel of 2.5 us and a memset of 0.5 us. The
  // update of 8 us is split by bytes, 48 to 16.
  const std::map<std::string, Duration> times{
      {"input_1", 0us},         {"linear_1", 20us},
      {"relu_1", 5us},          {"sum_1", 3us},
      {"relu_1_grad", 6us},     {"relu_1_grad_ones_like", 1us},
      {"linear_1_grad", 18us},  {"linear_1_grad_2", 2us},
      {"linear_1_update", 6us}, {"linear_1_update_2", 2us}};
  for (const auto& [name, time] : times) {
    CAPTURE(name);
    CHECK(g.op(op(g, name)).compute == time);
  }
  // linear_1 reads w and b; mm allocates its result of 48 B and 100 B that it frees again.
  CHECK(g.op(op(g, "linear_1")).persistent == Bytes{48 + 16});
  CHECK(g.op(op(g, "linear_1_grad")).temporary == Bytes{100});
  CHECK(g.op(op(g, "linear_1")).temporary == Bytes{0});
  for (const char* name : {"relu_1_grad", "relu_1_grad_ones_like"})
    CHECK(g.op(op(g, name)).forward == op(g, "relu_1"));
  for (const char* name : {"linear_1_grad", "linear_1_grad_2"})
    CHECK(g.op(op(g, name)).forward == op(g, "linear_1"));
  CHECK(g.op(op(g, "linear_1_update")).phase == Phase::update);
  REQUIRE(g.num_groups() == 1);
  CHECK(g.members(GroupId{1}).size() == 3);  // linear_1 and both updates
  CHECK(g.kind(op(g, "linear_1_update")) == "sgd_update");
  CHECK(trace.batch == 2);
  CHECK(trace.source == "PyTorch execution trace 1.1.0-chakra.0.0.4, times of a GPU by hand");
  CHECK(noted(trace, "22 of 22 calls joined by Record function id"));
  CHECK(noted(trace,
              "2 parameters of 64 bytes, optimizer state of 0, statistics and frozen "
              "weights of 0; 1 inputs of 24"));
  CHECK(noted(trace, "63.000 us of 63.000 us"));  // 20+5+3+1+6+18+2+8
  CHECK(trace.coverage.with_time == 0);           // is set by read_trace()
}
