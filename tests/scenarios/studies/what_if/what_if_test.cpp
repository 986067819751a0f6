#include "scenarios/studies/what_if/what_if.h"

#include <doctest/doctest.h>

#include <map>

#include "scenarios/read/load.h"
#include "scenarios/read/what_if_files.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "tests/message.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// The rows of the verb what-if for a small model on one device, by name.
std::map<std::string, WhatIfRow> rows_of(const std::vector<std::string>& rules) {
  Mistakes mistakes;
  const ScenarioFile file = parse_scenario(
      "graph: {generate: vgg16, batch: 2}\ncluster: {devices: {count: 1, kind: v100_pytorch}, "
      "link: {kind: ethernet_10g}}\nplacers: [single]\n",
      "x.yaml", {}, mistakes);
  mistakes.throw_if_any();
  const Scenario point = file.point(0);
  const auto trace = std::make_shared<const Trace>(load_graph(point.graph));
  std::map<std::string, WhatIfRow> rows;
  for (WhatIfRow& row : what_if_rows(what_if_questions(point, rules), trace, point))
    rows[row.name] = std::move(row);
  return rows;
}

Duration sum(const PathTimes& path) {
  Duration all{};
  for (const Duration time : path) all += time;
  return all;
}

}  // namespace

TEST_SUITE("what-if rows") {
  TEST_CASE("local_sgd is the mean of steps of which one reduces gradients, latency included") {
    auto rows = rows_of({"data_parallel", "local_sgd:period=4", "amp"});
    const Duration base = rows["base"].step, ddp = rows["data_parallel"].step;
    CHECK(ddp > base);
    CHECK(rows["local_sgd:period=4"].step == base + (ddp - base) / 4);
    CHECK(sum(rows["local_sgd:period=4"].path) == rows["local_sgd:period=4"].step);
    CHECK(rows["local_sgd:period=4"].peak == rows["data_parallel"].peak);
    // All together: the other three steps are amp's, without a gradient reduction.
    auto two = rows_of({"local_sgd:period=1", "amp"});
    const Duration half = rows["amp"].step;
    auto all = rows_of({"local_sgd:period=4", "amp"});
    CHECK(all["all together"].step == half + (two["all together"].step - half) / 4);
  }

  TEST_CASE("throughput counts the larger batch") {
    auto rows = rows_of({"larger_batch:factor=4"});
    CHECK(rows["base"].samples == 2.0);
    CHECK(rows["larger_batch:factor=4"].samples == 8.0);
    CHECK(rows["larger_batch:factor=4"].samples_per_second() ==
          doctest::Approx(8e6 / to_us(rows["larger_batch:factor=4"].step)));
  }

  TEST_CASE("`every` needs the verb what-if, and one such file at a time") {
    CHECK(message<InputError>([] {
            rows_of({"local_sgd", "local_sgd:period=2"});
          }).starts_with("RULES: two files have the key 'every'"));
    CHECK(message<InputError>([] {
            with_included_rules(parse_yaml("what_if: [{use: local_sgd}]", "x.yaml"), "");
          }).starts_with("x.yaml:1:17: use: 'local_sgd' is about one step in 8"));
    CHECK(message<InputError>([] {
            rows_of({"local_sgd:period=0"});
          }).find("every: '0' is not a whole number from 1 to 1000000") != std::string::npos);
  }
}
