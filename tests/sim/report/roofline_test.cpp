#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/report/timeline.h"
#include "tests/device_models.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

namespace {

/// Two ops of one module and one without work:
///   conv  8 MFLOP, 100 kB, 9 us: bound by compute
///   relu  0.1 MFLOP, 600 kB, 7 us: bound by memory
///   view  4 us
/// on a device of 1 TFLOP/s, 100 GB/s and 1 us per launch.
OpGraph one_module() {
  OpGraphBuilder b;
  const OpId conv = b.add_op({.name = "conv", .compute = 9us, .module = "layer1"});
  b.add_kernel(conv, {.flops = 8'000'000, .traffic = 100'000_B});
  const OpId relu = b.add_op({.name = "relu", .compute = 7us, .module = "layer1"});
  b.add_kernel(relu, {.flops = 100'000, .traffic = 600'000_B});
  b.add_edge(b.add_tensor(conv, 8_B), relu);
  b.add_edge(b.add_tensor(relu, 8_B), b.add_op({.name = "view", .compute = 4us}));
  return std::move(b).build();
}

Json drawn(const OpGraph& graph, const DeviceModel* model, std::size_t most = 100) {
  const Cluster cluster = gpus(1);
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  Timeline timeline;
  StepObserver* observers[] = {&timeline};
  simulate(problem, {.device = IdVector<OpId, DeviceId>(graph.num_ops(), gpu0)}, observers);
  const std::string text = roofline(problem, timeline, {&model, 1}, most);
  return text.empty() ? Json() : Json::parse(text);
}

}  // namespace

TEST_SUITE("roofline") {
  const DeviceModel plain{.name = "plain",
                          .arithmetic = in_every_format({.peak = {1e12}}),
                          .bandwidth = {1e11},
                          .launch = 1us,
                          .source = "",
                          .fitted = ""};

  TEST_CASE("ops and layers with their work and time, the longest first, under the roof") {
    const Json r = drawn(one_module(), &plain);
    CHECK(r["roofs"] ==
          Json::parse(R"([{"device": "plain", "bandwidth": 1e11, "peaks": {"fp32": 1e12}}])"));
    CHECK(r["ops"] == Json::parse(R"([["conv", 8e6, 1e5, 9000, 0], ["relu", 1e5, 6e5, 7000, 1]])"));
    CHECK(r["layers"] == Json::parse(R"([["layer1", 8.1e6, 7e5, 16000]])"));  // 9 + 7 us
    CHECK(drawn(one_module(), &plain, 1)["ops"].size() == 1);
  }

  TEST_CASE("without a model there is no roof, without work no plot") {
    const Json r = drawn(one_module(), nullptr);
    CHECK(r["roofs"].empty());
    CHECK(r["ops"][0] == Json::parse(R"(["conv", 8e6, 1e5, 9000, -1])"));
    CHECK(drawn(one_tensor_two_readers(), &plain).is_null());
  }
}
