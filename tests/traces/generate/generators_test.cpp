#include "tests/prelude.h"
#include "tests/small_graphs.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"
#include "traces/generator.h"

TEST_SUITE("traces") {
  TEST_CASE("every generator keeps the contract") {
    for (const GeneratorEntry& entry : generators()) {
      CAPTURE(entry.name);
      const Trace t = generate_trace(entry.name, Options(std::string(entry.name)));
      CHECK(t.format == entry.name);
      CHECK(t.graph.num_ops() > 0);
      CHECK((t.coverage.with_time == t.coverage.ops || t.graph.has_work()));
      CHECK(trace_json(t) ==
            trace_json(generate_trace(entry.name, Options(std::string(entry.name)))));
      CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
      CHECK_THROWS_AS(generate_trace(entry.name, options("g", {{"no_such_option", "1"}})),
                      InputError);
    }
    CHECK_THROWS_WITH_AS(
        generate_trace("layerd", Options("layerd"), "x.yaml:2:3"),
        doctest::Contains("x.yaml:2:3: no generator 'layerd' (did you mean 'layered'?) "
                          "(generators: layered, alexnet, "),
        InputError);
  }

  TEST_CASE(
      "layered: the requested number of ops; each op after the first layer reads one to three") {
    const auto make = [](const std::map<std::string, std::string>& o) {
      return generate_trace("layered", options("layered", o)).graph;
    };
    const OpGraph g = make({{"ops", "5000"}, {"width", "50"}, {"degree", "2"}, {"seed", "3"}});
    CHECK(g.num_ops() == 5000);
    for (const OpId v : g.ops()) {
      const std::size_t inputs = g.in_edges(v).size();
      CHECK(inputs <= 3);
      CHECK((inputs == 0) == (index(v) < 50));
      for (const OpId u : g.predecessors(v)) CHECK(index(v) / 50 - index(u) / 50 <= 8);
    }
    // Mean in-degree 2, less what two choices of the same op lose.
    CHECK(static_cast<double>(g.num_edges()) / 4950 == doctest::Approx(2.0).epsilon(0.05));
    const OpGraph ties = make({{"ties", "true"}, {"compute", "3 us"}});
    for (const OpId v : ties.ops()) CHECK(ties.op(v).compute == 3us);
    const OpGraph one = make({{"ops", "1"}, {"width", "7"}});
    CHECK(one.num_edges() == 0);
    const OpGraph chain = make({{"ops", "100"}, {"width", "1"}, {"degree", "1"}});
    CHECK(chain.num_edges() == 99);
    const OpGraph training = make({{"ops", "1000"}, {"training", "true"}});
    const OpGraph inference = make({{"ops", "1000"}});
    CHECK(training.num_ops() == 2000);
    CHECK(training.num_edges() == 2 * inference.num_edges() + 1000);  // each op's own backward
    CHECK(training.num_groups() == 1000);
    CHECK_THROWS_AS(make({{"degree", "4"}}), InputError);
    CHECK_THROWS_AS(make({{"ops", "0"}}), InputError);
  }
}
