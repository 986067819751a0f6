#include <doctest/doctest.h>

#include <string>

#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;

TEST_SUITE("cli") {
  TEST_CASE("a closed pipe, or a closed or full output, does not crash") {
    const Session session;
    const auto gone = session.run("list --format markdown", "( {} ; echo $? >code.txt ) | true");
    CHECK(gone.err.empty());
    CHECK(session.folder().read("code.txt") == "0\n");
    CHECK(session.run("list", "{} >&-").code == 0);
    const auto full = session.run("list", "{} >/dev/full");
    CHECK(full.code == 1);
    CHECK(holds(full.err, "cannot write the answer"));
  }

  TEST_CASE("Ctrl-C ends with 130") {
    const Session session;
    session.folder().write("slow.sh", "#!/bin/sh\nexec sleep 3\n");
    CHECK(session
              .run("place toy.json --placer exec:./slow.sh " + two_gpus,
                   "chmod +x slow.sh && timeout --preserve-status -s INT 0.5 {}")
              .code == 130);
  }
}
