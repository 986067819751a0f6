#include <doctest/doctest.h>

#include <string>

#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;

TEST_SUITE("cli") {
  TEST_CASE("plans are written, replayed in virtual time, calibrated and scored") {
    const Session session;
    session.folder().write(
        "s.yaml",
        "name: toy\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
        "engine: {transfers: duplex}\nplacers: [single, round_robin]\n");
    const auto planned = session.run("validate plan s.yaml -o r --budget 0.5");
    CHECK(planned.code == 0);
    CHECK(holds(planned.err, "toy.toy: 2 placements, 2 distinct"));
    CHECK(holds(planned.err, "r/plans: 4 plans of 2 runs, 0.0 MB; the steps of one pass"));
    // a on gpu0, b on gpu1, c on gpu0; the tensor crosses once, in 1 us.
    const std::string plan = session.folder().read("r/plans/0001_toy.toy_round_robin_0.plan");
    CHECK(holds(plan, "name toy.toy/round_robin/0\n"));
    CHECK(holds(plan, "transfer 1 0 1 0 1000 1000 after 0\n"));
    CHECK(session.run("validate report r").code == 2);
    CHECK(session.run("validate replay r --replays 3 --rounds 3").code == 0);
    CHECK(session.run("validate calibrate r").code == 0);
    const auto report = session.run("validate report r");
    CHECK(report.code == 0);
    CHECK(holds(report.out, "24 replays of 4 plans; 0 failed; 0 plans were not replayed"));
    CHECK(holds(session.folder().read("r/report.html"), "Predicted against measured: virtual"));
    CHECK(session.run("validate plan s.yaml -o r --calibration r/calibration.yaml").code == 0);
    session.folder().write("r/plans/broken.plan", "baechi-plan 1\nname a b\n");
    const auto broken = session.run("validate report r");
    CHECK(broken.code == 2);
    CHECK(holds(broken.err, "r/plans/broken.plan:2:1: 'name' with 1 value should stand here"));
  }
}
