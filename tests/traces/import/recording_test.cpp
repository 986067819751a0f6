#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "tests/traces/import/recordings.h"

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

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

/// A GPU memory event `us` after the beginning of the recording.
std::string memory(std::int64_t us, std::int64_t bytes, const std::string& more = "") {
  return fmt::format(R"({{"ph":"i","s":"t","name":"[memory]","pid":7,"tid":8,)"
                     R"("ts":{},"args":{{{}"Device Type":1,"Bytes":{}}}}})",
                     1'700'000'000'000'000 + us, more, bytes);
}

/// The layer's times; 32 B with an address are allocated at `made` and freed at `freed`.
std::string with_release(std::int64_t made, std::int64_t freed) {
  const std::string kineto = read_file((recordings() / "layer.kineto.json").string());
  const std::string optimizer = R"({"ph":"X","cat":"user_annotation","name":"Optimizer.step)";
  const std::string at = fmt::format(R"("ts":{},"args":{{)", 1'700'000'000'000'000 + made);
  REQUIRE(kineto.find(at) != std::string::npos);
  return replaced(replaced(kineto, at, at + R"("Addr":7,)"), optimizer,
                  memory(freed, -32, R"("Addr":7,)") + "," + optimizer);
}

/// A call of a recording of version 1.0.1. A tensor is [tensor, storage, offset, elements, bytes of
/// an element, device]; its elements are its only side.
std::string recorded_call(int id, int parent, const std::string& name,
                          const std::vector<nlohmann::json>& inputs, const nlohmann::json& output) {
  nlohmann::json shapes = nlohmann::json::array(), types = shapes;
  for (const auto& tensor : inputs) {
    shapes.push_back({tensor[3]});
    types.push_back("Tensor(float)");
  }
  return nlohmann::json{{"id", id},
                        {"parent", parent},
                        {"rf_id", id},
                        {"name", "aten::" + name},
                        {"seq_id", -1},
                        {"tid", 1},
                        {"op_schema", "aten::" + name + "(Tensor a, Tensor b) -> Tensor"},
                        {"inputs", inputs},
                        {"input_shapes", shapes},
                        {"input_types", types},
                        {"outputs", nlohmann::json::array({output})},
                        {"output_shapes", nlohmann::json::array({{output[3]}})},
                        {"output_types", nlohmann::json::array({"Tensor(float)"})}}
      .dump();
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

// bag(y, ids) calls sort(ids) and cumsum; its own kernel reads y. If it were split into its inner
// calls, nothing would read y or write what sum reads.
//
//   input_1 --> relu_1 --y, 32 B--> bag_1 --16 B--> sum_1
TEST_CASE("a call with an input that no inner call takes is one op") {
  const auto tensor = [](int id, int elements, int bytes) {
    return nlohmann::json{id, id, 0, elements, bytes, "cpu"};
  };
  const nlohmann::json x = tensor(1, 8, 4), y = tensor(2, 8, 4), ids = tensor(3, 2, 8),
                       sorted = tensor(4, 2, 8), summed = tensor(5, 2, 8), bag = tensor(6, 4, 4);
  const auto step = [&](const std::vector<nlohmann::json>& taken) {
    return R"({"schema": "1.0.1", "nodes": [{"id": 1, "parent": 1, "rf_id": 0, "inputs": [],
                 "name": "[pytorch|profiler|execution_graph|thread]"},)" +
           recorded_call(2, 1, "relu", {x}, y) + "," + recorded_call(3, 1, "bag", {y, ids}, bag) +
           "," + recorded_call(4, 3, "sort", {ids}, sorted) + "," +
           recorded_call(5, 3, "cumsum", taken, summed) + "," +
           recorded_call(6, 1, "sum", {bag}, tensor(7, 1, 4)) + "]}";
  };
  const Trace whole = imported_texts(step({sorted}), "");
  CHECK(names(whole.graph) ==
        std::set<std::string>{"input_1", "input_2", "relu_1", "bag_1", "sum_1"});
  CHECK(edges(whole.graph) == std::set<std::string>{"input_1 -> relu_1 32", "input_2 -> bag_1 16",
                                                    "relu_1 -> bag_1 32", "bag_1 -> sum_1 16"});
  // If cumsum takes y, the inner calls are all that bag does.
  CHECK(names(imported_texts(step({sorted, y}), "").graph).contains("cumsum_1"));
}

// [tensor, storage, offset, elements, bytes of an element, device]
TEST_CASE("sizes of tensors: what is negative or larger than any memory is refused") {
  const auto refused = [](std::int64_t offset, std::int64_t elements, int bytes) {
    const nlohmann::json x{1, 1, offset, elements, bytes, "cpu"};
    TextFile file("t.json", R"({"schema": "1.0.1", "nodes": [{"id": 1, "parent": 1, "rf_id": 0,
          "inputs": [], "name": "[pytorch|profiler|execution_graph|thread]"},)" +
                                recorded_call(2, 1, "relu", {x}, {2, 2, 0, 8, 4, "cpu"}) + "]}");
    try {
      pytorch::read_execution_trace(file);
      return std::string();
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  constexpr std::int64_t most = std::int64_t{1} << 40;
  CHECK(refused(most, most, 256).empty());
  CHECK(refused(0, 0, 0).empty());
  for (const std::string& what :
       {refused(most + 1, 8, 4), refused(0, most + 1, 4), refused(0, 8, 257)})
    CHECK(what.find("is larger than any memory") != std::string::npos);
  for (const std::string& what : {refused(-1, 8, 4), refused(0, -1, 4), refused(0, 8, -1)})
    CHECK(what.find("a number is negative") != std::string::npos);
}

TEST_CASE("a collective in an older version has its name among the arguments") {
  const nlohmann::json x{1, 1, 0, 8, 4, "cpu"}, y{2, 2, 0, 8, 4, "cpu"};
  nlohmann::json sum = nlohmann::json::parse(recorded_call(2, 1, "record_param_comms", {x}, y));
  for (const char* text : {"all_reduce", "another text"}) {
    sum["inputs"].push_back(text);
    sum["input_shapes"].push_back(nlohmann::json::array());
    sum["input_types"].push_back("String");
  }
  const OpGraph g = imported_texts(R"({"schema": "1.0.1", "nodes": [{"id": 1, "parent": 1,
        "rf_id": 0, "inputs": [], "name": "[pytorch|profiler|execution_graph|thread]"},)" +
                                       sum.dump() + "]}",
                                   "")
                        .graph;
  CHECK(names(g) == std::set<std::string>{"input_1", "all_reduce_1"});
}

// Autograd copies a gradient with another layout than its weight: new_empty_strided(y) makes the
// memory, copy_ fills it. Were the first an op, both had an output of 32 B.
//
//   input_1 --> relu_1 --y, 32 B--> copy_1 --32 B--> sum_1
TEST_CASE("memory is an output of the call that fills it, not of the call that allocates it") {
  const auto tensor = [](int id) { return nlohmann::json{id, id, 0, 8, 4, "cpu"}; };
  const nlohmann::json x = tensor(1), y = tensor(2), made = tensor(3);
  const std::string step =
      R"({"schema": "1.0.1", "nodes": [{"id": 1, "parent": 1, "rf_id": 0, "inputs": [],
            "name": "[pytorch|profiler|execution_graph|thread]"},)" +
      recorded_call(2, 1, "relu", {x}, y) + "," +
      recorded_call(3, 1, "new_empty_strided", {y}, made) + "," +
      replaced(recorded_call(4, 1, "copy_", {made, y}, made), "copy_(Tensor a",
               "copy_(Tensor(a!) a") +
      "," + recorded_call(5, 1, "sum", {made}, tensor(4)) + "]}";
  const OpGraph graph = imported_texts(step, "").graph;
  CHECK(names(graph) == std::set<std::string>{"input_1", "relu_1", "copy_1", "sum_1"});
  CHECK(edges(graph) ==
        std::set<std::string>{"input_1 -> relu_1 32", "relu_1 -> copy_1 32", "copy_1 -> sum_1 32"});
}

// As above, but the function of autograd frees the 100 B of its mm only when its sum runs. While
// the sum runs, there are 48 + 100 + 16 B more than before the function, of which the graph
// holds the results, 48 + 16 B.
TEST_CASE("workspace includes memory that an autograd function holds until it ends") {
  const std::string late =
      replaced(read_file((recordings() / "layer.kineto.json").string()),
               R"("ts":1700000000000145,"args")", R"("ts":1700000000000160,"args")");
  const auto workspace = [&](pytorch::Workspace what, std::string_view name) {
    const OpGraph g =
        layer(late, {.optimizer = pytorch::UpdateOrder::as_ready, .workspace = what}).graph;
    return g.op(op(g, name)).temporary;
  };
  CHECK(workspace(pytorch::Workspace::call, "linear_1_grad") == Bytes{100});
  CHECK(workspace(pytorch::Workspace::call, "linear_1_grad_2") == Bytes{100});
  CHECK(workspace(pytorch::Workspace::op, "linear_1_grad") == Bytes{100});
  CHECK(workspace(pytorch::Workspace::op, "linear_1_grad_2") == Bytes{0});
  CHECK(workspace(pytorch::Workspace::call, "relu_1") == Bytes{0});
}

// As above, but the sum reads z, so that mm is the last to read its gradient of 32 B, which
// relu_1_grad allocates at 113. It is freed at 150, before the sum, or at 168, before the
// function of autograd ends.
TEST_CASE("an op becomes a reader of the tensor that is freed during it") {
  const std::string execution = replaced(read_file((recordings() / "layer.et.json").string()),
                                         R"("values":[[109,8,0,8,4,"cuda:0"],[0],0)",
                                         R"("values":[[105,5,0,8,4,"cuda:0"],[0],0)");
  const auto all = [&](std::int64_t freed, pytorch::Workspace what) {
    const std::string kineto = with_release(113, freed);
    return edges(imported_texts(execution, kineto,
                                {.optimizer = pytorch::UpdateOrder::as_ready, .workspace = what})
                     .graph);
  };
  const std::string edge = "relu_1_grad -> linear_1_grad_2 32";
  CHECK(all(168, pytorch::Workspace::call).contains(edge));
  CHECK_FALSE(all(168, pytorch::Workspace::op).contains(edge));
  CHECK_FALSE(all(150, pytorch::Workspace::call).contains(edge));
  CHECK(all(150, pytorch::Workspace::call) == all(150, pytorch::Workspace::op));
}

// y, 32 B, is allocated at 6 for linear_1, and relu_1 reads it last. Memory is freed at 172,
// after the autograd function; its address shows that it is y's: the last block of 32 B is the
// gradient's.
TEST_CASE("memory is matched to tensors by address") {
  const auto all = [&](bool addresses) {
    const std::string text = with_release(6, 172);
    return edges(layer(addresses ? text : replaced(text, R"("Addr":7,)", "")).graph);
  };
  CHECK(all(true).contains("linear_1 -> linear_1_grad_2 32"));
  CHECK_FALSE(all(false).contains("linear_1 -> linear_1_grad_2 32"));
}

// relu --y, 32 B--> sum --4 B--> add --32 B--> tanh    y's memory may be freed after sum
//   x --> neg --u, 32 B---------/                      relu, neg and add are in module "m"
TEST_CASE("the new reader of a tensor is the last op before its release in a module of its own") {
  const auto tensor = [](int id, int elements) {
    return nlohmann::json{id, id, 0, elements, 4, "cpu"};
  };
  const auto x = tensor(1, 8), y = tensor(2, 8), u = tensor(3, 8), s = tensor(4, 1),
             z = tensor(5, 8), w = tensor(6, 8);
  struct Event {
    int at;
    std::int64_t bytes;
    int address;
  };
  // Call k runs from 20 k to 20 k + 10.
  const auto added = [&](const std::vector<Event>& memory, const std::string& third = "m") {
    std::string nodes = R"({"id": 1, "parent": 1, "rf_id": 0, "inputs": [],
                              "name": "[pytorch|profiler|execution_graph|thread]"})";
    nlohmann::json events = nlohmann::json::array();
    const auto call = [&](int k, const std::string& module, const std::string& name,
                          const std::vector<nlohmann::json>& inputs, const nlohmann::json& made) {
      nodes += fmt::format(
          R"(, {{"id": {0}, "parent": 1, "rf_id": {0}, "inputs": [], "name": "{1}"}}, )", 2 * k,
          module);
      nodes += recorded_call(2 * k + 1, 2 * k, name, inputs, made);
      for (const bool frame : {true, false})
        events.push_back({{"ph", "X"},
                          {"cat", frame ? "user_annotation" : "cpu_op"},
                          {"name", frame ? module : "aten::" + name},
                          {"ts", 20 * k},
                          {"dur", frame ? 12 : 10},
                          {"pid", 1},
                          {"tid", 1},
                          {"args", {{"Record function id", 2 * k + (frame ? 0 : 1)}}}});
    };
    call(1, "m", "relu", {x}, y);
    call(2, "m", "neg", {x}, u);
    call(3, "n", "sum", {y}, s);
    call(4, third, "add", {s, u}, z);
    call(5, "n", "tanh", {z}, w);
    for (const Event& e : memory)
      events.push_back({{"ph", "i"},
                        {"name", "[memory]"},
                        {"ts", e.at},
                        {"pid", 1},
                        {"tid", 1},
                        {"args", {{"Device Type", 0}, {"Bytes", e.bytes}, {"Addr", e.address}}}});
    const std::string text = R"({"schema": "1.0.1", "nodes": [)" + nodes + "]}";
    std::set<std::string> all =
        edges(imported_texts(text, nlohmann::json{{"traceEvents", events}}.dump()).graph);
    for (const std::string& known : edges(imported_texts(text, "").graph)) all.erase(known);
    return all;
  };
  using Edges = std::set<std::string>;
  CHECK(added({{22, 32, 7}, {65, -32, 7}}).empty());                           // during sum
  CHECK(added({{22, 32, 7}, {85, -32, 7}}) == Edges{"relu_1 -> add_1 32"});    // during add
  CHECK(added({{22, 32, 7}, {105, -32, 7}}) == Edges{"relu_1 -> tanh_1 32"});  // during tanh
  CHECK(added({{22, 32, 7}}) == Edges{"relu_1 -> tanh_1 32"});                 // never
  CHECK(added({{22, 32, 7}, {85, -32, 7}}, "o").empty());  // add is in neither module
  CHECK(added({{22, 32, 7}, {45, -32, 7}}).empty());       // before its reader: not y's
  // An allocator of blocks of 512 B: the block of 40 B is another output of relu.
  CHECK(added({{22, 512, 7}, {23, 40, 6}, {85, -512, 7}, {105, -40, 6}}) ==
        Edges{"relu_1 -> add_1 32", "relu_1 -> add_1 40"});
  // A block of no tensor's size is y's if it is large enough, the smallest one first.
  CHECK(added({{22, 100, 7}, {23, 40, 6}, {85, -100, 7}, {105, -40, 6}}) ==
        Edges{"relu_1 -> tanh_1 32", "relu_1 -> add_1 100"});
  // relu allocates y and what neg fills.
  CHECK(added({{22, 32, 7}, {23, 32, 6}, {85, -32, 7}, {105, -32, 6}}) ==
        Edges{"relu_1 -> add_1 32"});
}

// 100 B that mm allocates and frees at 145 are workspace. If relu_1 allocates 200 B at 42 that go
// at 145, it has one more output until mm, whose workspace is the 100 B alone.
TEST_CASE("memory that is no tensor's and outlives its call is an extra output") {
  const std::string kineto =
      replaced(read_file((recordings() / "layer.kineto.json").string()),
               R"("ts":1700000000000042,"args":{)", R"("ts":1700000000000042,"args":{"Addr":6,)");
  const std::string relu = R"({"ph":"X","cat":"cpu_op","name":"aten::sum")", at = R"("Addr":7,)";
  REQUIRE(kineto.find(relu) != std::string::npos);
  const std::string text = kineto.substr(0, kineto.find(relu)) + memory(43, 200, at) + "," +
                           memory(145, -200, at) + "," + kineto.substr(kineto.find(relu));
  const OpGraph g = layer(text).graph;
  CHECK(edges(g).contains("relu_1 -> linear_1_grad 200"));
  CHECK(g.op(op(g, "relu_1")).temporary == Bytes{0});
  CHECK(g.op(op(g, "linear_1_grad")).temporary == Bytes{100});
}

// zeros leaves 32 B, relu_ changes all of them, 3 ops later add_ the first 16 B; mul reads the 32
// B. All is in module "m".
//
//   zeros_1 --> relu_1 --> ... --> add_1 --> mul_1
TEST_CASE("a write in place takes no extra memory") {
  pytorch::Dataflow flow;
  pytorch::Call frame;
  frame.full_name = frame.name = "m";
  std::deque<pytorch::Call> calls;
  for (std::size_t i = 0; i < 5; ++i) {
    pytorch::Call& call = calls.emplace_back();
    call.is_operator = true;
    call.parent = &frame;
    pytorch::RecordedOp& made = flow.arena.emplace_back();
    made.position = i;
    made.calls = {&call};
    flow.ops.push_back(&made);
  }
  pytorch::Storage& storage = flow.storages.emplace_back();
  storage.bytes = 32;
  const auto write = [&](std::size_t by, std::int64_t bytes, std::vector<std::size_t> readers) {
    pytorch::Contents& c = flow.contents.emplace_back();
    c.producer = &flow.arena[by];
    c.storage = &storage;
    c.bytes = bytes;
    c.in_place = by > 0;
    flow.arena[by].writes.push_back(&c);
    for (const std::size_t r : readers) {
      c.readers.push_back(&flow.arena[r]);
      flow.arena[r].reads.push_back(&c);
    }
    return &c;
  };
  const pytorch::Contents *zeros = write(0, 32, {2}), *relu = write(2, 32, {3}),
                          *part = write(3, 16, {4});
  pytorch::share_in_place(flow);
  using Readers = std::vector<pytorch::RecordedOp*>;
  // relu_ (op 2) reads a reference to the zeros; they stay until op 1, the one before.
  CHECK(zeros->readers == Readers{&flow.arena[1]});
  const pytorch::Contents& seen = *flow.arena[0].writes.back();
  CHECK(seen.reference);
  CHECK(seen.readers == Readers{&flow.arena[2]});
  CHECK(flow.arena[2].reads == std::vector<pytorch::Contents*>{flow.arena[0].writes.back()});
  // What add_ writes is a part of what relu_ left, which stays until mul.
  CHECK(part->reference);
  CHECK(relu->readers == Readers{&flow.arena[3], &flow.arena[4]});
  CHECK_FALSE(relu->reference);
}

// A storage of two gates: ops 0 and 1 write one each, ops 2 and 3 read one each. Op 3 is the
// last.
TEST_CASE("parts of a storage are live until the last read of any part") {
  for (const bool external : {false, true}) {
    CAPTURE(external);
    pytorch::Dataflow flow;
    for (std::size_t i = 0; i < 4; ++i) flow.arena.emplace_back().position = i;
    pytorch::Storage& storage = flow.storages.emplace_back();
    storage.external = external;
    for (std::size_t i = 0; i < 2; ++i) {
      pytorch::Contents& gate = flow.contents.emplace_back();
      gate.producer = &flow.arena[i];
      gate.storage = &storage;
      gate.readers = {&flow.arena[i + 2]};
      storage.parts.emplace_back(pytorch::Elements{}, &gate);
    }
    pytorch::hold_parts(flow);
    using Readers = std::vector<pytorch::RecordedOp*>;
    CHECK(flow.contents[0].readers ==
          (external ? Readers{&flow.arena[2]} : Readers{&flow.arena[2], &flow.arena[3]}));
    CHECK(flow.contents[1].readers == Readers{&flow.arena[3]});
    CHECK(flow.arena[3].reads.size() == (external ? 0 : 1));  // outputs of the last op
  }
}

// The layer again, with the barrier that linear_1_grad_2 ends: what linear_1_grad waits for, it
// waits for, too. Gradients stay until the ops that follow all updates.
TEST_CASE("updates wait for the backward pass, and gradients live until all are done") {
  const Trace trace = layer(read_file((recordings() / "layer.kineto.json").string()), {});
  const OpGraph& g = trace.graph;
  CHECK(g.num_ops() == 10 + 3);
  std::set<std::string> controls, data;
  for (const EdgeId e : g.edges()) {
    const std::string edge = fmt::format("{} -> {}", g.name(g.edge(e).src), g.name(g.edge(e).dst));
    (g.tensor(g.edge(e).tensor).control ? controls : data).insert(edge);
  }
  CHECK(controls == std::set<std::string>{"linear_1_grad_2 -> backward_end",
                                          "backward_end -> linear_1_update",
                                          "backward_end -> linear_1_update_2",
                                          "linear_1_update -> linear_1_zero_grad",
                                          "linear_1_update_2 -> linear_1_zero_grad_2"});
  CHECK(data.size() == 11 + 2);
  CHECK(data.contains("linear_1_grad -> linear_1_zero_grad"));
  CHECK(data.contains("linear_1_grad_2 -> linear_1_zero_grad_2"));
  CHECK(g.members(GroupId{1}).size() == 3 + 2);  // colocated with the update
  for (const char* update : {"linear_1_update", "linear_1_update_2"})
    for (const char* zero : {"linear_1_zero_grad", "linear_1_zero_grad_2"})
      CHECK(op(g, update) < op(g, zero));
}

// Steps of the same calls, on a CPU: linear 30 us, from 0.5, relu 10, from 40, ...
TEST_CASE("op times are medians over several steps; step_time covers the time between ops") {
  const nlohmann::json whole =
      nlohmann::json::parse(read_file((recordings() / "layer.kineto.json").string()));
  const auto step = [&](double longer) {
    nlohmann::json events = nlohmann::json::array();
    for (nlohmann::json event : whole["traceEvents"]) {
      if (event["cat"] != "cpu_op" && event["cat"] != "user_annotation") continue;
      event["dur"] = event["dur"].get<double>() * longer;
      events.push_back(std::move(event));
    }
    return nlohmann::json{{"traceEvents", events}}.dump();
  };
  TextFile one("1.json", step(0.5)), two("2.json", step(0.75)), three("3.json", step(1.0));
  std::vector<TextFile*> all{&three, &one, &two};
  pytorch::Settings settings{.optimizer = pytorch::UpdateOrder::as_ready,
                             .time = pytorch::OpTime::op};
  const auto steps = [&](std::span<TextFile* const> given) {
    TextFile calls((recordings() / "layer.et.json").string());
    return pytorch::import_step(calls, given, settings);
  };
  const Trace median = steps(all);
  TextFile again("2.json", step(0.75));
  TextFile* const alone = &again;
  const Trace middle = steps(std::span(&alone, 1));
  CHECK(noted(median, "; medians of 3 steps"));
  for (const OpId v : median.graph.ops())
    CHECK(median.graph.op(v).compute == middle.graph.op(v).compute);
  CHECK(median.graph.op(op(median.graph, "linear_1")).compute == 22500ns);  // 0.75 x 30 us
  const auto sum = [](const Trace& trace) {
    Duration total{};
    for (const OpId v : trace.graph.ops()) total += trace.graph.op(v).compute;
    return total;
  };
  settings.step_time = 2 * sum(middle);
  TextFile filled("2.json", step(0.75));
  TextFile* const given = &filled;
  const Trace whole_step = steps(std::span(&given, 1));
  CHECK(std::abs((sum(whole_step) - settings.step_time).count()) < 20);  // rounding
  CHECK(noted(whole_step, "warning: the ops take"));
  CHECK(noted(whole_step, "-50.0 %"));
}

// The same on a CPU. Functions of autograd last from 100 to 110, with a view alone, from 110 to
// 120, with relu_1_grad from 112 to 118, and from 130 to 170, with mm from 134 to 149 and the sum
// from 155 to 165.
TEST_CASE("op times include the overhead of the enclosing autograd function") {
  nlohmann::json whole =
      nlohmann::json::parse(read_file((recordings() / "layer.kineto.json").string()));
  auto& events = whole["traceEvents"];
  for (std::size_t i = events.size(); i-- > 0;)
    if (events[i]["cat"] != "cpu_op" && events[i]["cat"] != "user_annotation")
      events.erase(i);
    else
      events[i]["ts"] = events[i]["ts"].get<double>() - 1.7e15;
  const auto takes = [&](std::string_view name, pytorch::OpTime time) {
    const Trace t =
        layer(whole.dump(), {.optimizer = pytorch::UpdateOrder::as_ready, .time = time});
    return t.graph.op(op(t.graph, name)).compute;
  };
  CHECK(takes("relu_1_grad", pytorch::OpTime::op) == 6us);
  CHECK(takes("relu_1_grad", pytorch::OpTime::call) == 10us + 10us);
  CHECK(takes("linear_1_grad", pytorch::OpTime::op) == 15us);
  CHECK(takes("linear_1_grad", pytorch::OpTime::call) == 19us);    // 130 to 149
  CHECK(takes("linear_1_grad_2", pytorch::OpTime::call) == 21us);  // 149 to 170
  CHECK(takes("relu_1", pytorch::OpTime::call) == 10us);           // no call encloses it
}

TEST_CASE("a recording joins by any of its keys, and reports the key") {
  const std::string text = read_file((recordings() / "layer.kineto.json").string());
  const std::string whole = graph_text(layer(text));
  const std::string no_number = replaced(text, "Record function id", "x");
  CHECK(graph_text(layer(no_number)) == whole);
  CHECK(noted(layer(no_number), "joined by External id"));
  // Without External ids the fill without a recorded launch has no call.
  const std::string names_only = replaced(no_number, "External id", "y");
  const Trace by_name = layer(names_only);
  CHECK(noted(by_name, "22 of 22 calls joined by order of names"));
  CHECK(noted(by_name, "1 of 9 kernels and copies have no recorded launch"));
  CHECK(by_name.graph.op(op(by_name.graph, "relu_1_grad_ones_like")).compute == 0us);
  CHECK(noted(by_name, "1 of 9 ops launched none and take no time"));
  CHECK(by_name.graph.op(op(by_name.graph, "linear_1_grad")).compute == 18us);
  // Ids of another run do not match: the names differ.
  const std::string shifted =
      replaced(replaced(text, "Record function id\":", "Record function id\":1"),
               "External id\":", "External id\":1");
  CHECK(noted(layer(shifted), "joined by order of names"));
  CHECK_THROWS_WITH_AS(layer(replaced(names_only, "aten::linear", "aten::conv2d")),
                       doctest::Contains("of 22 calls, the following were found, by key: Record "
                                         "function id 0, External id 0, order of names"),
                       InputError);
}

TEST_CASE("without a Kineto trace only the times of a step are missing") {
  const Trace trace = imported(recordings() / "layer.et.json", nullptr,
                               {.optimizer = pytorch::UpdateOrder::as_ready});
  const Trace timed = layer(read_file((recordings() / "layer.kineto.json").string()));
  CHECK(edges(trace.graph) == edges(timed.graph));
  CHECK(coverage(trace.graph).with_time == 0);
  CHECK(noted(trace, "no times: give the Kineto trace of the same run as option kineto"));
}

TEST_CASE("without an optimizer gradients stay live, and arguments' names tell weights") {
  const std::string text = replaced(read_file((recordings() / "layer.et.json").string()),
                                    "Optimizer.step#SGD.step", "my own update");
  TextFile calls("e.json", text);
  const OpGraph g = pytorch::import_step(calls, {}, {}).graph;
  CHECK(g.op(op(g, "linear_1")).persistent == Bytes{64});
  CHECK(g.num_groups() == 0);
  // The calls are split by tensor, and belong to the backward pass.
  CHECK(g.op(op(g, "linear_1_grad__foreach_add")).phase == Phase::backward);
}

TEST_CASE("the ops colocated with a parameter are an option") {
  const std::string text = read_file((recordings() / "layer.kineto.json").string());
  CHECK(layer(text,
              {.colocate = pytorch::Colocate::updates, .optimizer = pytorch::UpdateOrder::as_ready})
            .graph.members(GroupId{1})
            .size() == 3);
  const Trace forward = layer(
      text, {.colocate = pytorch::Colocate::forward, .optimizer = pytorch::UpdateOrder::as_ready});
  CHECK(forward.graph.num_groups() == 2);  // linear_1 with gradients and updates; relu_1 with its
  CHECK(forward.graph.members(forward.graph.op(op(forward.graph, "linear_1")).group).size() == 5);
}

// A storage of 4 x 6 numbers: rows from 0, 6, 12, 18.
TEST_CASE("a view covers a set of elements of a storage") {
  using pytorch::Elements, pytorch::strided, pytorch::overlap, pytorch::within;
  const auto view = [](std::int64_t offset, std::vector<std::int64_t> sizes,
                       std::vector<std::int64_t> strides) {
    return strided(offset, sizes, strides).value();
  };
  const Elements left = view(0, {4, 3}, {6, 1}), right = view(3, {4, 3}, {6, 1});
  CHECK(left == Elements{{0, 3}, {6, 9}, {12, 15}, {18, 21}});
  CHECK(view(0, {3, 4}, {1, 6}) == left);        // transposed
  CHECK(view(0, {2, 4, 3}, {0, 6, 1}) == left);  // expanded
  CHECK(view(0, {1 << 30, 4}, {0, 1}) == Elements{{0, 4}});
  CHECK(view(6, {2, 6}, {6, 1}) == Elements{{6, 18}});  // whole rows are one range
  CHECK_FALSE(overlap(left, right));
  CHECK(overlap(left, view(6, {2, 6}, {6, 1})));
  CHECK(within(view(6, {3}, {1}), left));
  CHECK_FALSE(within(view(6, {4}, {1}), left));
  CHECK(pytorch::size(right) == 12);
  CHECK_FALSE(strided(0, std::vector<std::int64_t>{2}, std::vector<std::int64_t>{}));
  CHECK_FALSE(strided(0, std::vector<std::int64_t>{-2}, std::vector<std::int64_t>{1}));
}
