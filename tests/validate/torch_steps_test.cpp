#include "validate/torch_steps.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "sim/error.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

constexpr const char* score_columns =
    "model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us\n";

}  // namespace

TEST_SUITE("torch_steps") {
  TEST_CASE("errors are of the cases that count; regret is of the way that is predicted best") {
    const TemporaryFolder folder;
    // a: off by 10 % and -20 %; predicted best is ddp, which takes 100 where two_stages takes 80.
    // b: off by 0; one case alone has no regret. c does not count.
    folder.write("score.csv", std::string(score_columns) +
                                  "a,ddp,,90,100,0.02,yes,50,150\n"
                                  "a,two_stages,3,96,80,0.04,yes,40,120\n"
                                  "b,ddp,,70,70,0.01,yes,70,70\n"
                                  "c,ddp,,700,70,0.30,no,70,70\n");
    folder.write("peaks.csv",
                 "model,way,cut,rank,predicted_bytes,measured_bytes\na,ddp,,0,99,100\n");
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    CHECK(score.counting == 3);
    CHECK(score.errors.median == doctest::Approx(0.1));
    CHECK(score.errors.worst == doctest::Approx(0.2));
    CHECK(score.no_transfers.worst == doctest::Approx(0.5));
    CHECK(score.baechi.worst == doctest::Approx(0.5));
    CHECK(score.regret == doctest::Approx(0.25));
    CHECK(score.order == doctest::Approx(-1.0));
    CHECK(score.noise == doctest::Approx(0.02));
    CHECK(score.of_peaks.worst == doctest::Approx(0.01));
  }

  TEST_CASE("an effect is worth the error that it removes from the cases that it moves") {
    const TemporaryFolder folder;
    // Without its copies the first case is off by 30 % instead of 10 %; the second does not move.
    folder.write("score.csv",
                 "model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us,"
                 "without_copies_us\n"
                 "a,ddp,,90,100,0.02,yes,50,150,70\n"
                 "a,two_stages,3,96,80,0.04,yes,40,120,96\n"
                 "c,ddp,,700,70,0.30,no,70,70,60\n");
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    REQUIRE(score.effects.size() == 1);
    const validate::TorchEffect& copies = score.effects.front();
    CHECK(copies.name == "copies");
    CHECK(copies.cases == 1);
    CHECK(copies.with.median == doctest::Approx(0.1));
    CHECK(copies.without.median == doctest::Approx(0.3));
  }

  TEST_CASE("a machine that became slower is told apart from a wrong prediction") {
    const TemporaryFolder folder;
    // One process alone takes 25 % longer while the steps are measured: 80 become 100, as measured.
    folder.write("score.csv",
                 "model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us,"
                 "drift\n"
                 "a,ddp,,80,100,0.02,yes,50,150,0.25\n");
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    CHECK(score.errors.worst == doctest::Approx(0.2));
    CHECK(score.steady.worst == doctest::Approx(0.0));
    CHECK(score.drift == doctest::Approx(0.25));
  }

  TEST_CASE("what cannot be scored is told with its place") {
    const TemporaryFolder folder;
    const auto refused = [&](const std::string& rows) {
      folder.write("score.csv", score_columns + rows);
      return message<InputError>([&] { validate::score_torch(folder.file("")); });
    };
    CHECK(refused("a,ddp,,90,100,0.02,maybe,50,150\n").find(":2:20: counts is 'maybe'") !=
          std::string::npos);
    CHECK(refused("a,ddp,,90,100,0.5,no,50,150\n").find("no case counts") != std::string::npos);
  }

  TEST_CASE("rules that make stages of a recorded step, in Python") {
    const TemporaryFolder folder;
    const int code =
        std::system(("python3 '" + source_dir() +  // NOLINT
                     "/tests/validate/predict_test.py' >'" + folder.file("faults") + "' 2>&1")
                        .c_str());
    CHECK_MESSAGE(code == 0, folder.read("faults"));
  }

  TEST_CASE("one model in two ways, by this machine's PyTorch") {
    const std::string python = "/usr/bin/python3";
    const auto runs = [](const std::string& command) {
      return std::system((command + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT
    };
    if (!runs(python + " -c 'import torch.distributed'")) {
      MESSAGE("skipped: there is no " << python << " with PyTorch (package python3-torch)");
      return;
    }
    const TemporaryFolder folder;
    REQUIRE(runs(python + " '" + source_dir() + "/validate/pytorch/judge.py' '" + program() +
                 "' '" + folder.file("") +
                 "' --models mixer --ways two_stages,all_reduce --rounds 2 --quick"));
    std::string text = folder.read("score.csv");
    for (std::size_t at = text.find(",no,"); at != std::string::npos; at = text.find(",no,", at))
      text.replace(at, 4, ",yes,");  // other tests run on the same cores: it counts all the same
    folder.write("score.csv", text);
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    CHECK(score.counting == 3);  // two cuts, and the replicas
    CHECK(score.errors.worst < 5.0);
    CHECK(score.of_peaks.worst < 0.5);
  }
}
