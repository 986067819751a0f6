#include <doctest/doctest.h>

#include "scenarios/read/device_table.h"
#include "scenarios/run/experiment.h"
#include "tests/scenarios/sweeps.h"

using namespace baechi;
using baechi::testing::scenario_of;

namespace {

OpGraph product_in(Precision precision) {
  OpGraphBuilder builder;
  const OpId op = builder.add_op({.name = "a", .kind = "MatMul"});
  builder.add_kernel(op, {.flops = 2 * 64 * 64 * 64,
                          .precision = precision,
                          .matrix = {MatrixKind::product, 1, 0, 64, 64}});
  return std::move(builder).build();
}

}  // namespace

TEST_SUITE("evidence") {
  TEST_CASE("a dtype without measured GEMMs on a device type is reported as unfitted") {
    const DeviceModel& h100 = *built_in_devices().devices.at("h100");
    const auto bf16 = evidence_of(product_in(Precision::bf16), h100);
    REQUIRE(bf16.size() == 1);
    CHECK(bf16[0].of == "h100");
    CHECK(bf16[0].fitted.starts_with("products bf16 2886 rows"));
    const auto fp32 = evidence_of(product_in(Precision::fp32), h100);
    REQUIRE(fp32.size() == 2);
    CHECK(fp32[1].of == "h100 in fp32");
    CHECK(fp32[1].fitted.starts_with("unfitted"));
    // A type without any fit is reported once.
    CHECK(evidence_of(product_in(Precision::fp32), *built_in_devices().devices.at("k80")).size() ==
          1);
  }

  TEST_CASE("fits besides the device's are reported where they are used") {
    OpGraphBuilder builder;
    builder.add_kernel(builder.add_op({.name = "a", .kind = "MambaMixer"}), {.flops = 1});
    const auto evidence =
        evidence_of(std::move(builder).build(), *built_in_devices().devices.at("h100"));
    REQUIRE(evidence.size() == 2);
    CHECK(evidence[1].of == "mixers of Mamba-2");
    CHECK(evidence[1].fitted.find("fitted to steps of Nemotron 3 Nano") != std::string::npos);
  }

  TEST_CASE("types of links and collectives in a cluster are reported, also inside node types") {
    const ScenarioFile file = scenario_of(R"(
graph: {generate: layered, ops: 3}
cluster: {nodes: {kind: dgx_h100, count: 2}}
placers: [single]
)");
    std::string named;
    for (const Evidence& e : file.point(0).cluster.evidence) named += e.of + ", ";
    CHECK(named == "link nvlink4, link infiniband_ndr, collectives h100_nccl, ");
    const std::string line = evidence_line(file.point(0).cluster.evidence);
    CHECK(line.starts_with("evidence     link nvlink4: unfitted; "));
    CHECK(evidence_line({}).empty());
  }
}
