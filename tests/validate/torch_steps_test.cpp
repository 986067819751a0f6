#include <nlohmann/json.hpp>
#include <thread>

#include "tests/prelude.h"

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

/// What `baechi validate torch` answers of `folder`.
nlohmann::json score(const TemporaryFolder& folder) {
  REQUIRE(shell(folder, "'" + program() + "' validate torch . --format json", ">answer") == 0);
  return nlohmann::json::parse(folder.read("answer"));
}

/// MODELS.py with one model whose step is short, unlike those of models.py.
constexpr const char* small_model =
    "import torch\n"
    "from torch import nn\n"
    "def names(): return ['small']\n"
    "def batch_of(name): return 16\n"
    "def input_of(name, batch): return torch.randn(batch, 512)\n"
    "def layers_of(name): return [nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in "
    "range(4)]\n"
    "def cuts_of(name): return [2, 1]\n";

/// The exit code of `./dev torch` into `folder`, without a build; what it says is in `said`.
int evaluate(const TemporaryFolder& folder, const std::string& arguments) {
  return shell(folder,
               std::string(torch_python) + " '" + source_dir() +
                   "/validate/pytorch/evaluate.py' '" + program() + "' . " + arguments,
               ">said 2>&1");
}

}  // namespace

TEST_SUITE_BEGIN("torch_steps");
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
      "def layers_of(name): return [nn.Linear(8, 8), nn.Linear(8, 8) if name == 'a' else Bad()]\n";
  folder.write("m.py", models);
  CHECK(evaluate(folder, "m.py") == 2);
  CHECK(holds(folder.read("said"), "m.py: has no function cuts_of;"));
  folder.write("m.py", models + "def cuts_of(name): return [1, 9] if name == 'a' else [1]\n");
  CHECK(evaluate(folder, "m.py --ways two_stages,six_stages") == 2);
  const std::string said = folder.read("said");
  CHECK(holds(said, "--ways: no six_stages; there are two_stages, "));
  CHECK(
      holds(said, "cuts_of('a') has 9; the model has 2 layers, and a cut is a number from 1 to 1"));
  CHECK(holds(said, "b, layer 1 (Bad), which is given [4, 8]: line 4: ValueError: no luck"));
  CHECK_FALSE(holds(said, "Traceback"));
}

TEST_CASE("one model in two ways, by this machine's PyTorch") {
  if (!there_is_torch() || !there_are_two_cores()) return;
  const TemporaryFolder folder;
  folder.write("m.py", small_model);
  REQUIRE(evaluate(folder, "m.py --ways two_stages,all_reduce --processes 2 --rounds 2 --quick") ==
          0);
  std::string text = folder.read("score.csv");
  for (std::size_t at = text.find(",no,"); at != std::string::npos; at = text.find(",no,", at))
    text.replace(at, 4, ",yes,");  // other tests run on the same cores: it counts all the same
  folder.write("score.csv", text);
  const nlohmann::json found = score(folder);
  CHECK(found["cases"] == 3);  // two cuts, and the replicas
  CHECK(found["worst_error"] < 5.0);
  CHECK(found["peaks"]["worst"] < 0.5);
}

TEST_CASE("four processes on any machine: their peaks, and their times where there are cores") {
  if (!there_is_torch()) return;
  const TemporaryFolder folder;
  CHECK(evaluate(folder, "--processes 3") == 2);
  CHECK(holds(folder.read("said"), "--processes: no 3; there are 2, 4"));
  CHECK(evaluate(folder, "--ways four_stages --processes 2") == 2);
  CHECK(evaluate(folder, "--device cuda") == 77);
  folder.write("m.py", small_model);
  REQUIRE(evaluate(folder, "m.py --ways four_stages,four_ddp --processes 4 --rounds 2 --quick") ==
          0);
  if (std::thread::hardware_concurrency() < 4)
    CHECK(holds(folder.read("said"), "steps are not timed, peaks of memory are measured"));
  const std::string peaks = folder.read("peaks.csv");
  for (const char* row : {"small,four_stages,1+2+3,0,", "small,four_stages,1+2+3,3,",
                          "small,four_ddp,,0,", "small,four_ddp,,3,"})
    CHECK(holds(peaks, row));
  folder.write("score.csv", score_columns);  // what a machine of four cores adds is not for here
  const nlohmann::json found = score(folder);
  CHECK(found["peaks"]["count"] == 8);
  CHECK(found["peaks"]["worst"] < 0.5);
}
