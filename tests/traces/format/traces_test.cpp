#include "sim/random.h"
#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"

namespace {

/// A random trace with all features of the format.
OpGraph random_graph(std::uint64_t seed) {
  Random random(seed);
  OpGraphBuilder b;
  const std::uint32_t n = 1 + random.below(30);
  std::vector<std::vector<TensorId>> outputs(n);
  const bool kinds = random.below(2) == 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::string name = fmt::format("op\"{}\\\n{}", i, random.below(2) == 0 ? "é" : "");
    const OpId v = b.add_op({.name = name,
                             .kind = random.below(2) == 0 ? "Conv2D" : "",
                             .compute = Duration{static_cast<std::int64_t>(random.next() >> 20U)},
                             .persistent = {random.below(1000)},
                             .temporary = {random.below(1000)},
                             .phase = static_cast<Phase>(random.below(3))});
    if (kinds && random.below(2) == 0) {
      b.set_compute(v, "gpu", random.below(3) == 0 ? std::nullopt : std::optional(Duration{7}));
      b.set_compute(v, "cpu", Duration{random.below(100000)});
    }
    for (std::uint32_t k = random.below(3); k > 0; --k) {
      outputs[i].push_back(b.add_tensor(v, {random.below(5000)}));
      if (random.below(4) == 0) b.set_transfer(outputs[i].back(), Duration{random.below(9999)});
    }
    if (random.below(2) == 0) b.colocate(v, fmt::format("g{}", random.below(4)));
    if (i > 0 && random.below(3) == 0) b.set_forward(v, static_cast<OpId>(random.below(i)));
  }
  for (std::uint32_t k = 0; k < 2 * n; ++k) {
    const std::uint32_t i = random.below(n), j = random.below(n);
    if (i >= j) continue;
    if (outputs[i].empty())
      b.add_control(static_cast<OpId>(i), static_cast<OpId>(j));
    else
      b.add_edge(outputs[i][random.below(static_cast<std::uint32_t>(outputs[i].size()))],
                 static_cast<OpId>(j));
  }
  return std::move(b).build();
}

}  // namespace

TEST_SUITE_BEGIN("traces");
TEST_CASE("the example of the format's reference is read as described") {
  const Trace t = parse(R"(
{"format": "baechi-trace", "version": 1, "name": "toy", "source": "by hand", "batch": 1,
 "ops": [{"name": "a", "kind": "Conv2D", "phase": "forward", "compute_us": 12.5, "temporary_bytes": 0,
          "persistent_bytes": 4096, "colocation": ["a"], "outputs": [{"bytes": 1024}]},
         {"name": "a_grad", "phase": "backward", "forward": "a", "compute_us": 25}],
 "edges": [{"from": "a", "output": 0, "to": "a_grad"}],
 "controls": []})");
  CHECK(t.name == "toy");
  CHECK(t.source == "by hand");
  CHECK(t.batch == 1);
  CHECK(t.format == "baechi");
  REQUIRE(t.graph.num_ops() == 2);
  const Op& a = t.graph.op(OpId{0});
  CHECK(t.graph.kind(OpId{0}) == "Conv2D");
  CHECK(a.compute == 12500ns);
  CHECK(a.persistent == 4096_B);
  CHECK(t.graph.group_name(a.group) == "a");
  CHECK(t.graph.op(OpId{1}).phase == Phase::backward);
  CHECK(t.graph.op(OpId{1}).forward == OpId{0});
  REQUIRE(t.graph.num_edges() == 1);
  CHECK(t.graph.tensor(t.graph.edge(EdgeId{0}).tensor).size == 1024_B);
  // a has all three; a_grad has a time, and no outputs that could lack a size.
  CHECK(t.coverage.ops == 2);
  CHECK(t.coverage.with_time == 2);
  CHECK(t.coverage.with_bytes == 2);
  CHECK(t.coverage.with_memory == 1);
}

TEST_CASE("work is written and read back; ops of a graph without work have none") {
  const Trace t = parse(
      R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a"}, {"name": "b", "kernels": [{"flops": 150}, {"flops": 50, "traffic_bytes": 48}]}]})");
  CHECK(t.graph.work(OpId{0}) == OpWork{});
  CHECK(t.graph.work(OpId{1}) == OpWork{.flops = 200, .traffic = 48_B});
  REQUIRE(t.graph.kernels(OpId{1}).size() == 2);
  CHECK(t.graph.kernels(OpId{1})[0] == OpWork{.flops = 150});
  CHECK(std::ranges::equal(parse(trace_json(t)).graph.kernels(OpId{1}), t.graph.kernels(OpId{1})));
  const Trace weights = parse(
      R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a", "kernels": [{"flops": 1, "traffic_bytes": 48, "weight_bytes": 40}]}]})");
  CHECK(parse(trace_json(weights)).graph.work(OpId{0}) ==
        OpWork{.flops = 1, .traffic = 48_B, .weights = 40_B});
  CHECK_FALSE(parse(R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a"}]})")
                  .graph.has_work());
}

TEST_CASE("keys may come in any order, and keys that begin with x- anywhere") {
  const Trace t = parse(R"({"edges": [{"to": "b", "from": "a", "x-why": [1, {"c": null}]}],
      "controls": [{"from": "a", "to": "b"}], "x-tool": "mine",
      "ops": [{"outputs": [{"x-shape": [2, 2], "bytes": 1e3}], "name": "a"},
              {"\u006eame": "b", "x-y": 1}],
      "version": 1, "format": "baechi-trace"})");
  CHECK(t.graph.num_ops() == 2);
  CHECK(t.graph.num_edges() == 2);
  CHECK(t.graph.tensor(TensorId{0}).size == 1000_B);
  CHECK(t.graph.find("b") == OpId{1});
}

TEST_CASE("each object may have its own key order") {
  const Trace t = parse(R"({"format": "baechi-trace", "version": 1,
      "ops": [{"name": "a", "kind": "A", "outputs": [{"bytes": 8}]},
              {"outputs": [], "kind": "B", "name": "b"}, {"kind": "C", "name": "c"}, {"name": "d"}],
      "edges": [{"from": "a", "output": 0, "to": "b"}, {"to": "c", "from": "a"},
                {"output": 0, "to": "d", "from": "a"}],
      "controls": [{"from": "b", "to": "c"}, {"to": "d", "from": "c"}]})");
  REQUIRE(t.graph.num_ops() == 4);
  CHECK(t.graph.num_edges() == 5);
  for (const auto& [op, kind] : {std::pair("a", "A"), {"b", "B"}, {"c", "C"}, {"d", ""}})
    CHECK(t.graph.kind(*t.graph.find(op)) == kind);
  // An edge ends with "output", which is no key of a control.
  CHECK_REFUSED(parse(R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a"}],
      "edges": [], "controls": [{"output": 0, "from": "a", "to": "a"}]})"),
                doctest::Contains("a control has no key 'output'"));
}

TEST_CASE("times are exact to the nanosecond, and rounded if written finer") {
  const auto time = [](const std::string& us) {
    return parse(
               R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a", "compute_us": )" +
               us + "}]}")
        .graph.op(OpId{0})
        .compute;
  };
  CHECK(time("0.001") == 1ns);
  CHECK(time("4503599627370.497") == 4503599627370497ns);
  CHECK(time("4503599627370497.501") == 4503599627370497501ns);  // more than a double holds
  CHECK(time("1.0005") == 1001ns);
  CHECK(time("2e3") == 2ms);
  CHECK(time("0") == 0ns);
  for (const char* bad : {"1.", ".5", "01", "1.2.3", "4700000000000000", "18446744073709551617"})
    CHECK_THROWS_AS(time(bad), InputError);
}

TEST_CASE("op times keep their device types and missing measurements") {
  const Trace t = parse(R"({"format": "baechi-trace", "version": 1, "ops": [
      {"name": "a", "compute_us": {"gpu": null, "cpu": 3}}, {"name": "b", "compute_us": 1}]})");
  CHECK(t.graph.device_kinds() == std::vector<std::string>{"gpu", "cpu"});
  CHECK_FALSE(t.graph.compute(OpId{0}, 0));
  CHECK(*t.graph.compute(OpId{0}, 1) == 3us);
  CHECK(*t.graph.compute(OpId{1}, 1) == 1us);
  CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
}

TEST_CASE("times beside work that nobody measures, as version 1.0.0 wrote, are left out") {
  const auto read = [](const std::string& source) {
    return parse(R"({"format": "baechi-trace", "version": 1, "source": ")" + source +
                 R"(", "ops": [
        {"name": "a", "compute_us": {"rtx_2080": 3}, "kernels": [{"flops": 480}]}]})");
  };
  const Trace made = read("from the published structure");
  CHECK(made.graph.device_kinds().empty());
  CHECK(made.notes.at(0).starts_with("warning: 1 times are left out"));
  CHECK(*read("my own profiler").graph.compute(OpId{0}, 0) == 3us);
}

TEST_CASE("GEMM shapes are kept; the missing extent follows from the flops") {
  const Trace t = parse(R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a",
      "kernels": [{"flops": 480, "precision": "fp8", "matrix": {"kind": "product", "count": 1,
                   "columns": 6, "inner": 8}}]}]})");
  const MatrixShape shape = t.graph.kernels(OpId{0})[0].matrix;
  CHECK(shape == MatrixShape{MatrixKind::product, 1, 0, 6, 8});
  CHECK(shape.filled(480).rows == 5);  // 480 / (2 x 6 x 8)
  CHECK(parse(trace_json(t)).graph.kernels(OpId{0})[0].matrix == shape);
  for (const std::string extents :
       {R"("columns": 6, "inner": 8)", R"("count": 1, "rows": 5, "columns": 6, "inner": 8)"})
    CHECK(message<InputError>([&] {
            parse(R"({"format": "baechi-trace", "version": 1, "ops": [{"name": "a",
                "kernels": [{"flops": 480, "matrix": {"kind": "product", )" +
                  extents + "}}]}]}");
          }).ends_with("must be missing or 0: it follows from the flops"));
}

TEST_CASE("lanes, collectives and precisions are kept") {
  const Trace t = parse(R"({"format": "baechi-trace", "version": 1,
      "collectives": [{"kind": "all_gather", "bytes": 64, "ops": ["b", "a"], "ranks": 8, "nodes": 2,
                       "sharing": 4}],
      "ops": [{"name": "a"}, {"name": "b", "lane": "nvlink"},
              {"name": "c", "lane": "host", "kernels": [{"flops": 1, "precision": "bf16"}]}]})");
  const Collective& c = t.graph.collectives()[CollectiveId{0}];
  CHECK(c.kind == CollectiveKind::all_gather);
  CHECK(c.bytes == 64_B);
  CHECK(c.ranks == 8);
  CHECK(c.nodes == 2);
  CHECK(c.sharing == 4);
  CHECK(c.members == 2);
  CHECK(t.graph.name(c.first) == "b");  // ranks in the order of `ops`
  const OpId b = *t.graph.find("b"), a = *t.graph.find("a"), last = *t.graph.find("c");
  CHECK(t.graph.lanes()[index(t.graph.lane(b))] == "nvlink");
  CHECK(t.graph.lanes()[index(t.graph.lane(a))] == "comm");
  CHECK(t.graph.lanes()[index(t.graph.lane(last))] == "host");
  CHECK(t.graph.kernels(last)[0].precision == Precision::bf16);
  CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
}

TEST_CASE("modules are kept; an op without one has no key") {
  const Trace t = parse(R"({"format": "baechi-trace", "version": 1,
      "ops": [{"name": "b", "module": "net.b"}, {"name": "a", "module": "net.a"}, {"name": "c"}],
      "edges": []})");
  const OpId a = *t.graph.find("a"), b = *t.graph.find("b"), c = *t.graph.find("c");
  CHECK(t.graph.module(a) == "net.a");
  CHECK(t.graph.module(b) == "net.b");
  CHECK(t.graph.module(c).empty());
  const std::string text = trace_json(t);
  CHECK(holds(text, R"("name": "c", "kind": "", "phase": "forward", "compute_us")"));
  CHECK(trace_json(parse(text)) == text);
}

TEST_CASE("a trace that is written, read and written again has the same bytes") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Trace t{.graph = random_graph(seed), .name = "r\"", .source = "s\t", .batch = 3};
    const std::string text = trace_json(t);
    const Trace again = parse(text);
    CHECK(trace_json(again) == text);
    REQUIRE(again.graph.num_ops() == t.graph.num_ops());
    REQUIRE(again.graph.num_edges() == t.graph.num_edges());
    for (const OpId v : t.graph.ops()) {
      CHECK(again.graph.name(v) == t.graph.name(v));
      CHECK(again.graph.op(v).compute == t.graph.op(v).compute);
      CHECK(again.graph.op(v).forward == t.graph.op(v).forward);
      CHECK(again.graph.op(v).group == t.graph.op(v).group);
    }
    for (const TensorId x : t.graph.tensors())
      CHECK(again.graph.measured_transfer(x) == t.graph.measured_transfer(x));
  }
}

TEST_CASE("files are compressed by name and decompressed by content") {
  const TemporaryFolder folder;
  const Trace t{.graph = random_graph(1), .name = "n"};
  for (const char* name : {"t.json", "t.json.gz", "t.json.zst"}) {
    CAPTURE(name);
    write_trace(t, folder.file(name));
    CHECK(trace_json(read_trace(folder.file(name))) == trace_json(t));
    std::filesystem::rename(folder.file(name), folder.file("plain"));
    CHECK(trace_json(read_trace(folder.file("plain"))) == trace_json(t));
  }
  CHECK(folder.num_files() == 1);  // no temporary file is left
  // Two gzip members are the concatenation of their texts.
  write_file(folder.file("one.gz"), "one ");
  write_file(folder.file("two.gz"), "two");
  std::ofstream both(folder.file("both"), std::ios::binary);
  for (const char* part : {"one.gz", "two.gz"})
    both << std::ifstream(folder.file(part), std::ios::binary).rdbuf();
  both.close();
  CHECK(read_file(folder.file("both")) == "one two");
  const std::string large(3'000'000, 'x');
  write_file(folder.file("large.gz"), large);
  CHECK(read_file(folder.file("large.gz")) == large);
  write_file(folder.file("large.zst"), large);
  CHECK(read_file(folder.file("large.zst")) == large);
}
