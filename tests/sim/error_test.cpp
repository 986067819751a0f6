#include "sim/error.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "sim/options.h"
#include "tests/message.h"

using namespace baechi;
using namespace baechi::testing;

TEST_SUITE("error") {
  TEST_CASE("A failed check names its file from the root of the sources, and aborts") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t failing = fork();
    REQUIRE(failing >= 0);
    if (failing == 0) {
      const rlimit no_core{};
      setrlimit(RLIMIT_CORE, &no_core);
      std::signal(SIGABRT, SIG_DFL);
      dup2(ends[1], STDERR_FILENO);
      const int apples = 2;
      BAECHI_CHECK(apples == 3, "{} apples", apples);
      _exit(0);
    }
    close(ends[1]);
    std::string said;
    char letter = 0;
    while (read(ends[0], &letter, 1) == 1) said += letter;
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(failing, &status, 0) == failing);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
    CHECK(said.starts_with("tests/sim/error_test.cpp:"));
    CHECK(said.ends_with(": check failed: apples == 3: 2 apples\n"));
  }

  TEST_CASE("Mistakes are kept once each, in the order of path, line and column") {
    Mistakes mistakes;
    mistakes.add("b.yaml:1:1: x\na.yaml:10:2: y\n  more of y\na.yaml:9:3: z");
    mistakes.add("a.yaml:9:3: z");  // again, from the next point of a sweep
    mistakes.add("no place");
    CHECK(mistakes.size() == 4);
    mistakes.sort_by_place();
    CHECK(message<InputError>([&] { mistakes.throw_if_any(); }) ==
          "no place\na.yaml:9:3: z\na.yaml:10:2: y\n  more of y\nb.yaml:1:1: x");
  }

  TEST_CASE("A number outside the bounds of an option is a mistake that states the bounds") {
    Options o("part", {{"five", {.text = "5", .where = {}}},
                       {"six", {.text = "6", .where = {}}},
                       {"high", {.text = "2.5", .where = "x.yaml:1:2"}}});
    CHECK(o.get("five", std::int64_t{1}, "", 1, 5) == 5);
    CHECK(o.get("six", std::int64_t{1}, "", 1, 5) == 1);
    CHECK(o.get("high", 0.5, "", 0.0, 2.0) == 0.5);
    CHECK(message<InputError>([&] { o.finish(); }) ==
          "part.six: '6' is not a whole number from 1 to 5\n"
          "x.yaml:1:2: part.high: '2.5' is not a number from 0 to 2");
  }
}
