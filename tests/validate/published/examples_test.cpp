#include "validate/published/examples.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "scenarios/read/device_table.h"
#include "sim/error.h"
#include "tests/shared_data.h"
#include "tests/temporary_folder.h"
#include "validate/published/published.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

namespace {

/// A folder with dlexamples/training.csv of these lines.
void write_training(const TemporaryFolder& folder, const std::string& lines) {
  std::filesystem::create_directories(folder.file("dlexamples"));
  std::ofstream(folder.file("dlexamples/training.csv"))
      << "framework,model,machine,nodes,gpus,precision,batch_per_gpu,sequence,accumulation_steps,"
         "throughput,unit\n"
      << lines;
}

std::vector<PublishedScore> scores(const std::string& block) {
  const std::vector<std::string> names{block};
  return score_published(published_data().string(), names).scores;
}

/// The score of rows of Lambda's file.
PublishedScore score_of_lambda(const std::string& rows) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("lambda"));
  folder.write("lambda/training.csv",
               "machine,gpus,precision,network,global_batch,throughput,version\n" + rows);
  const std::vector<std::string> block{"lambda"};
  return score_published(folder.file(""), block).scores.at(0);
}

}  // namespace

TEST_SUITE("examples") {
  TEST_CASE("a row is the step of its model, on the kind of its GPU under its framework") {
    const TemporaryFolder folder;
    write_training(
        folder,
        "pytorch-19.07,bert-large-pretrain,dgx1-v100-32g,1,1,amp,4,128,8,64,sequences/s\n"
        "tensorflow+xla,resnet50,dgx-a100-40g,1,8,tf32,32,,1,512,images/s\n");
    Leftovers left;
    const auto rows = training_rows(folder.file(""), left);
    REQUIRE(rows);
    REQUIRE(rows->size() == 2);
    const ExampleRow& bert = rows->at(0);
    CHECK(kind_of(bert) == "v100_32gb_pytorch");
    CHECK(measured_seconds(bert) == doctest::Approx(0.5));  // 4 x 8 / 64
    CHECK(unknown_speed(bert).empty());
    const ExampleStep step = example_step(bert);
    CHECK(step.pass.num_ops() < step.update.num_ops());  // without updates
    bool half = false;
    for (const OpId v : step.pass.ops())
      for (const OpWork& work : step.pass.kernels(v)) half |= work.precision == Precision::fp16;
    CHECK(half);
    CHECK(kind_of(rows->at(1)) == "a100_40gb_xla");
    CHECK(measured_seconds(rows->at(1)) == doctest::Approx(0.5));  // 8 x 32 / 512
    CHECK(nodes_of(rows->at(1)) == "{kind: dgx_a100, count: 1}");
  }

  TEST_CASE("without channels last, convolutions in 16 bits copy their tensors") {
    ExampleRow row{.framework = "pytorch",
                   .model = "resnet50",
                   .machine = "v100-16g",
                   .precision = "amp",
                   .batch = 1,
                   .latency = 1.0};
    const auto traffic = [&] {
      std::pair<std::int64_t, std::int64_t> of_convolutions_and_others;
      const ExampleStep step = example_step(row);
      for (const OpId v : step.pass.ops())
        for (const OpWork& work : step.pass.kernels(v))
          (step.pass.kind(v) == "Conv2d" ? of_convolutions_and_others.first
                                         : of_convolutions_and_others.second) += work.traffic.count;
      return of_convolutions_and_others;
    };
    const auto last = traffic();
    row.channels_last = false;
    const auto first = traffic();
    CHECK(first.first == 3 * last.first);  // read or written, and both once more
    CHECK(first.second == last.second);
  }

  TEST_CASE("Lambda's GPUs send through the host's memory, on kinds of their own") {
    ExampleRow row{.framework = "pytorch",
                   .model = "resnet50",
                   .machine = "h100",
                   .precision = "amp",
                   .gpus = 8,
                   .through_host = true};
    CHECK(nodes_of(row) ==
          "{devices: {count: 8, kind: h100}, link: {kind: pcie5}, collectives: {kind: "
          "rtx_pro_6000_nccl}, count: 1}");
    row.through_host = false;
    CHECK(nodes_of(row) == "{kind: dgx_h100, count: 1}");
    row.machine = "h100-pcie";
    CHECK(kind_of(row) == "h100_pcie_pytorch");
    row.machine = "rtx-6000-ada";
    CHECK(kind_of(row) == "rtx_6000_ada_pytorch");
  }

  // Throughputs count 100 steps. 8 x 320 samples: 2 x 88,641 of them are 69.25 steps. 320: 101.
  TEST_CASE("Lambda's BERT stops when its samples have passed twice") {
    const PublishedScore score = score_of_lambda(
        "8x H100 80GB SXM5,8,fp16,bert_base_squad,2560,2560,v1\n"
        "1x H100 80GB SXM5,1,fp16,bert_base_squad,320,320,v1\n");
    REQUIRE(score.rows.size() == 2);
    CHECK(score.rows[0].measured == doctest::Approx(1000.0 / 0.6925078125));
    CHECK(score.rows[1].measured == doctest::Approx(1000.0 / 1.01));
  }

  TEST_CASE("Lambda's second version has the batches of the first, and its machines' GPUs") {
    const PublishedScore score = score_of_lambda(
        "2x H100 80GB SXM5,2,fp16,resnet50,8,8,v1\n"
        "LambdaOD_8x_Texas_1xH100_80GB_SXM5_192-222-52-89_v2,8,fp16,resnet50,,8,v2\n"
        "8xH200_140GB_SXM_v2,8,fp16,resnet50,,8,v2\n"
        "2x RTX 4090,2,fp32,resnet50,,8,v2\n"
        "2x RTX 3090,2,fp32,resnet50,8,8,v1\n"
        "2x RTX 3090,2,fp32,waveglow,8,8,v1\n");
    REQUIRE(score.rows.size() == 3);
    CHECK(score.rows[0].what == "pytorch resnet50 h100 amp, batch 4, 2 GPUs");
    CHECK(score.rows[0].measured == doctest::Approx(1000.0));
    CHECK(score.rows[1].what == "pytorch resnet50 h100 amp, batch 4, 1 GPU");
    CHECK(score.rows[1].measured == doctest::Approx(500.0));
    CHECK(score.rows[2].what == "pytorch resnet50 rtx-3090 tf32, batch 4, 2 GPUs");
    CHECK(score.left.skipped.size() == 3);  // no batch, twice; no such network
  }

  TEST_CASE("rows whose speed is not what it seems do not count") {
    ExampleRow row{.framework = "pytorch",
                   .model = "bert-large-pretrain",
                   .machine = "dgx-a100-80g",
                   .precision = "amp",
                   .training = true,
                   .rate = 1.0};
    CHECK_FALSE(unknown_speed(row).empty());  // 2021: skips padding
    row.model = "bert-large-squad";
    CHECK(unknown_speed(row).empty());
    ExampleRow mxnet{
        .framework = "mxnet", .model = "resnet50", .machine = "t4", .precision = "fp32"};
    CHECK(unknown_speed(mxnet) == "computed from a printed ratio");
    mxnet.precision = "amp";
    CHECK(unknown_speed(mxnet).empty());
    mxnet.model = "unheard-of";
    CHECK(unknown_speed(mxnet) == "no generator makes the model 'unheard-of'");
    mxnet.model = "resnet50";
    mxnet.machine = "unheard-of";
    CHECK(unknown_speed(mxnet) == "no kind of device is 'unheard-of' under 'mxnet'");
  }

  TEST_CASE("passes before an update take a pass each") {
    ExampleRow row{.framework = "pytorch",
                   .model = "bert-large-squad",
                   .machine = "dgx-a100-80g",
                   .precision = "tf32",
                   .training = true,
                   .batch = 2,
                   .length = 64,
                   .rate = 1.0};
    const DeviceModel& device = *built_in_devices().devices.at("a100_pytorch");
    const double one = simulated_seconds(row, device);
    row.passes = 2;
    const double two = simulated_seconds(row, device);
    row.passes = 5;
    CHECK(simulated_seconds(row, device) - two == doctest::Approx(3 * (two - one)));
  }

  TEST_CASE("a row that cannot be read costs itself, and is told with its place") {
    const TemporaryFolder folder;
    write_training(folder,
                   "pytorch,resnet50,dgx1,1,none,amp,4,128,8,64,images/s\n"
                   "tensorflow+xla,resnet50,dgx-a100-40g,1,1,tf32,32,,1,512,images/s\n"
                   "mxnet,resnet50\n"
                   "mxnet,alexnet,dgx1-v100-16g,1,1,amp,4,,1,64,images/s\n"
                   "mxnet,resnet50,dgx1-v100-16g,1,8,amp,4,,1,64,images/s\n");
    const std::vector<std::string> block{"training"};
    const PublishedScore score = score_published(folder.file(""), block).scores.at(0);
    CHECK(score.rows.size() == 1);
    REQUIRE(score.left.skipped.size() == 3);  // 8 GPUs are another block's
    const std::string path = folder.file("dlexamples/training.csv");
    const auto told = [&](const std::string& place, const std::string& what) {
      return std::ranges::any_of(score.left.skipped, [&](const Leftovers::Row& row) {
        return row.why.starts_with(path + place + what);
      });
    };
    CHECK(told(":2:25: ", "gpus 'none' is not a whole number"));
    CHECK(told(":4:1: ", "2 values, not 11"));
    CHECK(told(":5:1: ", "no generator makes the model 'alexnet'"));
  }

  TEST_CASE("rows that no block asks are counted, and a fit is said to be to other files") {
    const TemporaryFolder folder;
    // One GPU: training. Eight: nobody, because bert_data_parallel has no DGX-2.
    write_training(folder,
                   "tensorflow+xla,resnet50,dgx-a100-40g,1,1,tf32,32,,1,512,images/s\n"
                   "pytorch,bert-large-squad,dgx2-v100-32g,1,8,amp,4,384,1,64,sequences/s\n");
    const ScoreBoard board = score_published(folder.file(""), {});
    REQUIRE(board.unasked.size() == 1);
    CHECK(board.unasked[0].rows == 1);
    for (const PublishedScore& score : board.scores)
      if (score.block->name == "training")
        CHECK(score.fitted.ends_with(
            "; not to dlexamples/inference.csv, dlexamples/training.csv of this folder"));
  }

  TEST_CASE("more GPUs take the step of one, whatever it was, and the sum of the gradients") {
    const TemporaryFolder folder;
    // 2 and 16 samples of 1 s each; 330 M gradients of 4 B over links of 246 GB/s take 5 to 30 ms.
    write_training(folder,
                   "pytorch,bert-large-pretrain,dgx-a100-80g,1,1,tf32,1,128,2,1,sequences/s\n"
                   "pytorch,bert-large-pretrain,dgx-a100-80g,1,8,tf32,1,128,2,8,sequences/s\n"
                   "pytorch,bert-large-pretrain,dgx-a100-80g,1,8,tf32,2,128,2,8,sequences/s\n");
    const std::vector<std::string> block{"bert_data_parallel"};
    const PublishedScore score = score_published(folder.file(""), block).scores.at(0);
    REQUIRE(score.rows.size() == 1);  // of batch 2 there is no step of one GPU
    CHECK(score.rows[0].measured == doctest::Approx(2000.0));
    CHECK(score.rows[0].simulated > 2005.0);
    CHECK(score.rows[0].simulated < 2030.0);
  }

  // The bounds are those of the published measurements' acceptance, on the rows that were fitted
  // to; what to expect of other rows is cross-validated in scenarios/devices.yaml.
  TEST_CASE("blocks of NVIDIA's examples stay within their bounds") {
    struct Bound {
      const char* block;
      double mean;
    };
    for (const Bound& bound : {Bound{"inference", 0.10}, Bound{"inference_other_frameworks", 0.20},
                               Bound{"training", 0.20}, Bound{"mixed_precision", 0.15},
                               Bound{"bert_data_parallel", 0.08}}) {
      CAPTURE(bound.block);
      for (const PublishedScore& score : scores(bound.block)) {
        CHECK(score.errors.rows >= 20);
        CHECK(score.errors.mean <= bound.mean);
      }
    }
  }
}
