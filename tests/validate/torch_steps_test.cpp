#include "validate/torch_steps.h"

#include <thread>

#include "sim/error.h"
#include "tests/message.h"
#include "tests/prelude.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"

namespace {

constexpr const char* score_columns =
    "model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us\n";
constexpr const char* torch_python = "/usr/bin/python3";

bool there_is_torch() {
  return there_is(std::string(torch_python) + " with PyTorch (python3-torch)",
                  std::string(torch_python) + " -c 'import torch.distributed'");
}

bool there_are_two_cores() {
  if (std::thread::hardware_concurrency() >= 2) return true;
  MESSAGE("skipped: one core");
  return false;
}

/// The exit code of `./dev torch` into `folder`, without a build; what it says is in `said`.
int judged(const TemporaryFolder& folder, const std::string& arguments) {
  return shell(folder,
               std::string(torch_python) + " '" + source_dir() + "/validate/pytorch/judge.py' '" +
                   program() + "' . " + arguments,
               ">said 2>&1");
}

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

  TEST_CASE("peaks are scored where no step was timed") {
    const TemporaryFolder folder;
    folder.write("score.csv", score_columns);
    CHECK(message<InputError>([&] {
            validate::score_torch(folder.file(""));
          }).find("no case counts") != std::string::npos);
    // Off by 2 %, -4 % and 0: two of three are told well.
    folder.write("peaks.csv",
                 "model,way,cut,rank,predicted_bytes,measured_bytes\n"
                 "a,four_stages,1+2+3,0,102,100\n"
                 "a,four_stages,1+2+3,1,96,100\n"
                 "a,four_ddp,,3,7,7\n");
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    CHECK(score.counting == 0);
    CHECK(score.peaks.at(0).cut == "1+2+3");
    CHECK(score.peaks.at(2).rank == 3);
    CHECK(score.of_peaks.worst == doctest::Approx(0.04));
    CHECK(score.peaks_told_well == doctest::Approx(2.0 / 3.0));
  }

  TEST_CASE("rules that make stages of a recorded step, in Python") {
    const TemporaryFolder folder;
    const int code = shell(folder, "python3 '" + source_dir() + "/tests/validate/predict_test.py'");
    CHECK_MESSAGE(code == 0, folder.read("out.txt"));
  }

  TEST_CASE("mistakes in MODELS.py are told at once, before anything runs") {
    if (!there_is_torch()) return;
    const TemporaryFolder folder;
    const std::string models =
        "import torch\n"
        "from torch import nn\n"
        "class Bad(nn.Module):\n"
        "  def forward(self, x): raise ValueError('no luck')\n"
        "def names(): return ['a', 'b']\n"
        "def batch_of(name): return 4\n"
        "def input_of(name, batch): return torch.zeros(batch, 8)\n"
        "def layers_of(name): return [nn.Linear(8, 8), nn.Linear(8, 8) if name == 'a' else "
        "Bad()]\n";
    folder.write("m.py", models);
    CHECK(judged(folder, "m.py") == 2);
    CHECK(folder.read("said").find("m.py: has no function cuts_of;") != std::string::npos);
    folder.write("m.py", models + "def cuts_of(name): return [1, 9] if name == 'a' else [1]\n");
    CHECK(judged(folder, "m.py --ways two_stages,six_stages") == 2);
    const std::string said = folder.read("said");
    CHECK(said.find("--ways: no six_stages; there are two_stages, ") != std::string::npos);
    CHECK(said.find(
              "cuts_of('a') has 9; the model has 2 layers, and a cut is a number from 1 to 1") !=
          std::string::npos);
    CHECK(said.find("b, layer 1 (Bad), which is given [4, 8]: line 4: ValueError: no luck") !=
          std::string::npos);
    CHECK(said.find("Traceback") == std::string::npos);
  }

  TEST_CASE("one model in two ways, by this machine's PyTorch") {
    if (!there_is_torch() || !there_are_two_cores()) return;
    const TemporaryFolder folder;
    REQUIRE(
        judged(folder,
               "--models mixer --ways two_stages,all_reduce --processes 2 --rounds 2 --quick") ==
        0);
    std::string text = folder.read("score.csv");
    for (std::size_t at = text.find(",no,"); at != std::string::npos; at = text.find(",no,", at))
      text.replace(at, 4, ",yes,");  // other tests run on the same cores: it counts all the same
    folder.write("score.csv", text);
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    CHECK(score.counting == 3);  // two cuts, and the replicas
    CHECK(score.errors.worst < 5.0);
    CHECK(score.of_peaks.worst < 0.5);
  }

  TEST_CASE("four processes on any machine: their peaks, and their times where there are cores") {
    if (!there_is_torch()) return;
    const TemporaryFolder folder;
    CHECK(judged(folder, "--processes 3") == 2);
    CHECK(folder.read("said").find("--processes: no 3; there are 2, 4") != std::string::npos);
    CHECK(judged(folder, "--ways four_stages --processes 2") == 2);
    CHECK(judged(folder, "--device cuda") == 77);
    REQUIRE(judged(folder,
                   "--models mixer --ways four_stages,four_ddp --processes 4 --rounds 2 --quick") ==
            0);
    if (std::thread::hardware_concurrency() < 4)
      CHECK(folder.read("said").find("steps are not timed, peaks of memory are measured") !=
            std::string::npos);
    const std::string peaks = folder.read("peaks.csv");
    for (const char* row : {"mixer,four_stages,2+3+4,0,", "mixer,four_stages,2+3+4,3,",
                            "mixer,four_ddp,,0,", "mixer,four_ddp,,3,"})
      CHECK(peaks.find(row) != std::string::npos);
    folder.write("score.csv", score_columns);  // what a machine of four cores adds is not for here
    const validate::TorchScore score = validate::score_torch(folder.file(""));
    CHECK(score.peaks.size() == 8);
    CHECK(score.of_peaks.worst < 0.5);
  }
}
