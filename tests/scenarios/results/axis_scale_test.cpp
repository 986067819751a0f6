#include <doctest/doctest.h>

#include "scenarios/results/tables.h"

using namespace baechi;

namespace {

using Texts = std::vector<std::string>;

AxisScale::Kind kind(const Texts& values) {
  return axis_scale(values).kind;
}

}  // namespace

TEST_SUITE("axis scale") {
  TEST_CASE(
      "numbers and quantities of one unit are numeric, logarithmic if their ratios are uniform") {
    CHECK(kind({"0.2", "0.4", "1.0"}) == AxisScale::Kind::linear);
    CHECK(kind({"2", "4", "8"}) == AxisScale::Kind::linear);  // less than 8 times the smallest
    CHECK(kind({"1", "2", "4", "8", "16"}) == AxisScale::Kind::logarithmic);
    CHECK(kind({"10", "20", "30", "40", "50", "60", "70", "80"}) == AxisScale::Kind::linear);
    CHECK(kind({"125 MB/s", "1 GB/s", "10 GB/s"}) == AxisScale::Kind::logarithmic);
    CHECK(axis_scale(Texts{"1 KiB", "1 MiB"}).at == std::vector<double>{1024.0, 1048576.0});
    CHECK(axis_scale(Texts{"1 ms", "5 us"}).at == std::vector<double>{1e6, 5e3});  // as swept
    CHECK(kind({"0", "100"}) == AxisScale::Kind::linear);  // 0 has no logarithm
  }

  TEST_CASE("other values are words, one after another") {
    CHECK(kind({"parallel", "sequential"}) == AxisScale::Kind::words);
    CHECK(kind({"1 ms", "1 MiB"}) == AxisScale::Kind::words);
    CHECK(kind({"4", "fuse"}) == AxisScale::Kind::words);
    CHECK(kind({"1.0", "1"}) == AxisScale::Kind::words);  // two values, one number
    CHECK(axis_scale(Texts{"a", "b", "c"}).at == std::vector<double>{0.0, 1.0, 2.0});
  }

  TEST_CASE("short values lose folders and brackets, and stay distinct") {
    CHECK(short_values(Texts{"../traces/gnmt.trace.json.zst", "{fuse: {limit: 3}}", "[]"}) ==
          Texts{"gnmt", "fuse: limit: 3", "none"});
    const std::string lengthy(50, 'x');
    const Texts both = short_values(Texts{lengthy + "1", lengthy + "2"});
    CHECK(both[0] != both[1]);
    CHECK(both[0].size() < 40);
  }
}
