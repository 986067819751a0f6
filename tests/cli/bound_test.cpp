#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/session.h"
#include "tests/this_build.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

TEST_SUITE("cli") {
  TEST_CASE("bound prints the binding bound and whether memory can suffice") {
    const Session session;
    const Json bounds = session.json("bound toy.json " + two_gpus);
    CHECK(bounds["lower_bound_us"] == 40.0);
    CHECK(bounds["binding"] == "critical path");
    CHECK(bounds["critical_path_us"] == 40.0);
    CHECK(bounds["work_us"] == 30.0);  // 60 us on two devices
    CHECK(bounds["fits_in_memory"] == true);
    CHECK(bounds["devices_needed"] == 0);
    CHECK(bounds["max_load"]["lower_bound_us"] == 30.0);
    CHECK(bounds["max_load"]["binding"] == "work");
    CHECK(bounds["latency"]["lower_bound_us"] == 40.0);
    const Json solved = session.json("bound toy.json --time-limit '1 s' " + two_gpus);
    CHECK(solved["max_load"]["integer_program_us"] >= 30.0);
    CHECK(session.run("bound toy.json --time-limit soon " + two_gpus).code == 2);
    CHECK(holds(session.run("bound toy.json --devices 2 --memory '999 B'").out, "too small"));
  }

  // All three ops on one device hold the tensor of 1000 B once. With a on the other device, each
  // device holds one copy.
  TEST_CASE("bound prints the least memory per device and whether it is proved") {
    const Session session;
    for (const char* devices : {"--devices 1", "--devices 2"}) {
      const Json least = session.json("bound toy.json --least-memory " + std::string(devices));
      CHECK(least["least_memory_bytes"] == 1000);
      CHECK(least["lower_bound_bytes"] == 1000);
      CHECK(least["proved"] == true);
    }
    CHECK(holds(session.run("bound toy.json --least-memory --devices 2").out,
                "with less, no placement fits (proved)"));
    CHECK(session.run("bound toy.json --devices 2 --memory '1000 B'").code == 0);
    const std::string asked = "bound toy.json --least-memory --devices 2 ";
    CHECK(session.run(asked + "--time-limit '1 s'").code == 2);
    const Session::Result other = session.run(asked + "--semantics baechi");
    CHECK(other.code == 2);
    CHECK(holds(other.err, "needs --semantics event, which limits memory"));
  }
}
