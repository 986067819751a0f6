#include "tests/prelude.h"
#include "traces/generator.h"

namespace {

Trace make(const std::string& name, const std::string& seed, const std::string& size) {
  return generate_trace(name, Options(name, {{"seed", {seed, {}, {}}}, {"size", {size, {}, {}}}}));
}

}  // namespace

TEST_SUITE("generate") {
  TEST_CASE("a family draws a model by its seed: equal seeds give equal graphs, others differ") {
    for (const char* name : {"cells", "recurrent", "seq2seq", "blocks"}) {
      CAPTURE(name);
      const Trace one = make(name, "1", "1"), again = make(name, "1", "1");
      CHECK(one.graph.num_ops() == again.graph.num_ops());
      CHECK(one.graph.num_edges() == again.graph.num_edges());
      const Trace large = make(name, "1", "2");
      CHECK(large.graph.num_ops() > one.graph.num_ops() * 3 / 2);
      bool differs = false;
      for (const char* seed : {"2", "3", "4"})
        differs = differs || make(name, seed, "1").graph.num_ops() != one.graph.num_ops();
      CHECK(differs);
      std::size_t backward = 0, updates = 0;
      for (const OpId v : one.graph.ops()) {
        backward += one.graph.op(v).phase == Phase::backward ? 1U : 0U;
        updates += one.graph.op(v).phase == Phase::update ? 1U : 0U;
      }
      CHECK(backward > 0);
      CHECK(updates > 0);
    }
  }

  TEST_CASE("a recurrent cell has eight nodes in every step") {
    const Trace trace = make("recurrent", "5", "1");
    std::size_t nodes = 0, steps = 0;
    for (const OpId v : trace.graph.ops()) {
      if (trace.graph.op(v).phase != Phase::forward) continue;
      nodes += trace.graph.kind(v) == "RecurrentNode" ? 1U : 0U;
      steps += trace.graph.name(v).find("/node0") != std::string_view::npos ? 1U : 0U;
    }
    CHECK(steps >= 10);
    CHECK(nodes == 8 * steps);
  }
}
