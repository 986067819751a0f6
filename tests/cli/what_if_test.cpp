#include "tests/cli/session.h"

using namespace baechi::testing;

namespace {

/// toy.json on one device of 1 MB: 60 us. half.yaml makes b shorter.
struct WhatIfSession : Session {
  WhatIfSession() {
    folder().write("toy.yaml",
                   "graph: {import: toy.json}\n"
                   "cluster: {devices: {count: 1, memory: 1 MB}, link: {bandwidth: 1 GB/s, "
                   "latency: 0 us}}\nplacers: [single]\n");
    folder().write(
        "half.yaml",
        "with: {factor: 0.5}\nrules:\n  - scale: {time: \"${factor}\"}\n    where: {name: b}\n");
  }
};

}  // namespace

TEST_SUITE("cli what-if") {
  TEST_CASE("a row for the base, for each file of rules, and for all of them") {
    const WhatIfSession session;
    const auto rows = session.json("what-if toy.yaml half.yaml half.yaml:factor=0")["what_if"];
    REQUIRE(rows.size() == 4);
    CHECK(rows[0]["name"] == "base");
    CHECK(rows[0]["step_time_us"] == 60.0);
    CHECK(rows[0]["peak_bytes"] == 1000);
    CHECK(rows[0]["critical_path_us"]["compute"] == 60.0);
    CHECK(rows[1]["step_time_us"] == 50.0);
    CHECK(rows[2]["name"] == "half:factor=0");
    CHECK(rows[2]["step_time_us"] == 40.0);
    CHECK(rows[3]["name"] == "all together");
    CHECK(rows[3]["verdict"] == "fits");
  }

  TEST_CASE("a step that does not fit is simulated without the limit, and reported as such") {
    const WhatIfSession session;
    session.folder().write("large.yaml", "- set: {bytes: 2 MB}\n  where: {name: a}\n");
    const auto rows = session.json("what-if toy.yaml large.yaml")["what_if"];
    CHECK(rows[1]["verdict"] == "out of memory");
    CHECK(rows[1]["step_time_us"] == 60.0);
    CHECK(rows[1]["peak_bytes"] == 2'000'000);
    const std::string text = session.run("what-if toy.yaml large.yaml").out;
    CHECK(text.find("large: gpu0 has 976.56 KiB; the step is simulated without memory limits") !=
          std::string::npos);
    CHECK(session.run("what-if toy.yaml large.yaml --format csv").out ==
          "what_if,step_us,change,peak_bytes,device,limit_bytes,verdict,compute_us,host_us,"
          "collective_us,transfer_us,waiting_us,samples\n"
          "base,60,0.000000,1000,gpu0,1000000,fits,60,0,0,0,0,1\n"
          "large,60,0.000000,2000000,gpu0,1000000,out of memory,60,0,0,0,0,1\n");
  }

  TEST_CASE("mistakes in rules end with code 2 and their place") {
    const WhatIfSession session;
    session.folder().write("typo.yaml", "- scale: {tim: 2}\n- remove:\n  where: {name: d}\n");
    CHECK(session.run("what-if toy.yaml typo.yaml").code == 2);
    CHECK(session.run("what-if toy.yaml typo.yaml")
              .err.find("typo.yaml:1:16: scale has no option "
                        "'tim' (did you mean 'time'?)") != std::string::npos);
    CHECK(session.run("what-if toy.yaml ampp").err.find("did you mean 'amp'?") !=
          std::string::npos);
  }

  TEST_CASE("a rule that selects no op is a row, and has no part in all together") {
    const WhatIfSession session;
    const auto rows = session.json("what-if toy.yaml no_host infinite_network")["what_if"];
    REQUIRE(rows.size() == 4);
    CHECK(rows[1]["verdict"] == "does not apply");
    CHECK(rows[1]["why"].get<std::string>().find("what_if: 'remove' selects none of 3 ops") !=
          std::string::npos);
    CHECK(rows[2]["verdict"] == "fits");
    CHECK(rows[3]["step_time_us"] == rows[2]["step_time_us"]);
  }

  TEST_CASE("what-if takes a graph file and the cluster's flags") {
    // auto keeps the three ops on one device: 10 + 20 + 30 us.
    const WhatIfSession session;
    session.folder().write("slow.yaml", "- scale: {time: 2}\n");
    const auto rows = session.json("what-if toy.json slow.yaml " + two_gpus)["what_if"];
    CHECK(rows[0]["step_time_us"] == session.json("place toy.json " + two_gpus)["step_time_us"]);
    CHECK(rows[1]["change"].get<double>() > 0.5);
  }
}
