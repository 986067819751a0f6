// `validate published` and `validate fit`, which are programs in Python beside the program.

#include "tests/cli/session.h"
#include "tests/validate/virtual_clock.h"

namespace {

constexpr const char* scientific_python = "/usr/bin/python3";

bool there_is_scipy() {
  return there_is(std::string(scientific_python) + " with scipy (python3-scipy)",
                  std::string(scientific_python) + " -c 'import scipy'");
}

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "plans are written, replayed in virtual time, calibrated and scored") {
  write("s.yaml",
        "name: toy\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
        "engine: {transfers: duplex}\nplacers: [single, round_robin]\n");
  const auto planned = run("validate plan s.yaml -o r");
  CHECK(planned.code == 0);
  CHECK(holds(planned.err, "toy.toy: 2 placements, 2 distinct"));
  CHECK(holds(planned.err, "r/plans: 2 plans of 2 runs, 0.0 MB; the steps of one pass"));
  // a on gpu0, b on gpu1, c on gpu0; the tensor crosses once, in 1 us.
  const std::string plan = read("r/plans/0001_toy.toy_round_robin_0.plan");
  CHECK(holds(plan, "name toy.toy/round_robin/0\n"));
  CHECK(holds(plan, "transfer 1 0 1 0 1000 1000 after 0\n"));
  CHECK(run("validate report r").code == 2);
  validate::replay_virtually(file("r"));
  runs("validate calibrate r");
  const auto report = run("validate report r");
  CHECK(report.code == 0);
  CHECK(holds(report.out, "12 replays of 2 plans; 0 failed; 0 plans were not replayed"));
  CHECK(holds(read("r/report.html"), "Predicted against measured: virtual"));
  runs("validate plan s.yaml -o r --calibration r/calibration.yaml");
  write("r/plans/broken.plan", "baechi-plan 1\nname a b\n");
  refuses("validate report r", "r/plans/broken.plan:2:1: 'name' with 1 value should stand here");
}

TEST_SUITE_BEGIN("board");
TEST_CASE_FIXTURE(Session, "the board is scored of what is in the repository") {
  // Blocks that take a second: one of each module that has any.
  const auto scored =
      run("validate published allreduce_v100 nccl_unfitted ddp flagperf korthikanti --format json",
          "BAECHI_SHARED=/nonexistent {}");
  CAPTURE(scored.err);
  REQUIRE(scored.code == 0);
  std::map<std::string, std::size_t> rows;
  const auto answer = Json::parse(scored.out);
  for (const auto& block : answer["blocks"]) {
    rows[block["name"]] = block["rows"];
    CHECK(block["fitted"].get<std::string>().find("not to") == std::string::npos);
  }
  CHECK(rows.at("allreduce_v100") == 2048);
  CHECK(rows.at("nccl_unfitted") == 107);
  CHECK(rows.at("ddp") == 8);
  CHECK(rows.at("flagperf") == 5);
  CHECK(rows.at("korthikanti") > 0);
}

TEST_CASE_FIXTURE(Session, "the errors of fitted kernels are those of GPUs left out of the fit") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("measured/aiconfigurator"));
  folder.write("measured/aiconfigurator/gemm.csv",
               "system,version,dtype,m,n,k,ms\nh100_sxm,1,bfloat16,4096,4096,4096,0.2\n"
               "tpu,1,bfloat16,4096,4096,4096,0.2\n");
  const auto block =
      json("validate published kernels --data '" + folder.file("") + "'")["blocks"][0];
  CHECK(block["rows"] == 1);
  CHECK(block["skipped"] == 1);
  CHECK(block["left_out"]["group"] == "GPU");
  CHECK(block["left_out"]["mean"] != block["mean"]);
}

TEST_CASE_FIXTURE(Session, "scores, and the questions that rows become") {
  const auto cases = run("", "python3 '" + source_dir() + "/tests/validate/board.py' && : {}");
  CHECK_MESSAGE(cases.code == 0, cases.err);
}

TEST_CASE_FIXTURE(Session, "measured steps and peaks are scored, each by its case's prediction") {
  const std::string columns = "graph,transforms,cluster.devices.kind,step_time_us,peak_bytes\n";
  // 12 ms for 10, 24 for 20; 1030 bytes for 1064 of which 64 are cuBLAS's.
  const std::string table =
      write("results.csv",
            columns +
                "resnet50-b64,\"[{precision: {to: tf32, except: loss}}]\",h100,12000,1030\n"
                "gnmt-l20-b64,none,h100,18000,7\n"
                "gnmt-l20-b64,\"[{precision: {to: tf32, except: loss}}]\",h100,1,7\n");
  const std::string steps = write(
      "steps.jsonl",
      "{\"torch\": \"2.6\"}\n"
      "{\"case\": \"resnet50-b64\", \"precision\": \"tf32\", \"step_seconds\": 0.01, "
      "\"peak_bytes\": 1064, \"cublas_workspaces\": 64}\n"
      "{\"case\": \"gnmt\", \"precision\": \"fp32\", \"step_seconds\": 0.02}\n"
      "{\"case\": \"vgg16-b64\", \"precision\": \"fp32\", \"failed\": \"OutOfMemoryError\"}\n");
  const auto kind = json("validate steps " + table + " " + steps)["kinds"][0];
  CHECK(kind["kind"] == "h100");
  CHECK(kind["steps"]["count"] == 2);
  CHECK(kind["steps"]["worst"].get<double>() == doctest::Approx(0.2));
  CHECK(kind["steps"]["median"].get<double>() == doctest::Approx(0.15));
  CHECK(kind["peaks"]["count"] == 1);
  CHECK(kind["peaks"]["worst"].get<double>() == doctest::Approx(0.03));
  CHECK(kind["not_compared"] == Json{"vgg16-b64 fp32: OutOfMemoryError"});

  const auto refused = [&](const std::string& text) {
    const auto said = run("validate steps " + table + " " + write("bad", text));
    CHECK(said.code == 2);
    return said.err.substr(said.err.find("bad"));
  };
  CHECK(refused("{\"case\": \"gnmt\",\n").starts_with("bad:1:17: "));
  CHECK(refused("\n{\"case\": \"gnmt\", \"step_seconds\": 0}\n") ==
        "bad:2:1: step_seconds is 0; expected a number above 0\n");
  CHECK(refused("{\"torch\": 2}\n") == "bad: no line with case and step_seconds\n");
}

TEST_CASE_FIXTURE(Session, "fits recover what their rows were made of") {
  if (!there_is_scipy()) return;
  const auto fits =
      run("", std::string(scientific_python) + " '" + source_dir() + "/tests/validate/fits.py' {}");
  CHECK_MESSAGE(fits.code == 0, fits.err);
}

TEST_CASE_FIXTURE(Session, "a fit that cannot run says what is missing") {
  const auto none = run("validate fit kernels --data /nonexistent");
  CHECK(none.code == 2);
  const bool scipy = holds(none.err, "needs scipy");
  CHECK((scipy || holds(none.err, "/nonexistent")));
  CHECK(run("validate fit everything").code == 2);
}
