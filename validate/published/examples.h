/// NVIDIA's published example trainings (dlexamples/): rows of its tables, and the step of each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/device_model.h"
#include "sim/graph/op_graph.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

/// A row of dlexamples/inference.csv or training.csv.
struct ExampleRow {
  std::string framework;  ///< as the file has it: "pytorch-19.07", "tensorflow+xla"
  std::string model;
  std::string machine;  ///< a GPU, or a machine of GPUs: "t4", "dgx1-v100-16g"
  std::string precision;
  bool training = false;
  std::int64_t nodes = 1, gpus = 1;
  std::int64_t batch = 1;     ///< of a GPU and pass; Transformer: in tokens
  std::int64_t length = 0;    ///< of a sample; 0: the file has none
  std::int64_t passes = 1;    ///< forward and backward, before an update
  double rate = 0.0;          ///< training: images, sequences or tokens per second, of all GPUs
  double latency = 0.0;       ///< inference: seconds
  bool channels_last = true;  ///< the order of images in mixed precision
  bool through_host = false;  ///< GPUs send to each other through the host's memory
  std::string line{};         ///< line_of() the row

  bool mixed() const { return precision == "amp"; }
  /// "pytorch" of "pytorch-19.07".
  std::string_view base_framework() const;
  /// "pytorch resnet50 t4 amp, batch 4"
  std::string text() const;
};

/// The rows of each file in `folder`; nothing if it is not there. `left` takes those that cannot be
/// read.
std::optional<std::vector<ExampleRow>> inference_rows(const std::string& folder, Leftovers& left);
std::optional<std::vector<ExampleRow>> training_rows(const std::string& folder, Leftovers& left);

/// The kind of device in devices.yaml that has the GPU's and the framework's numbers, such as
/// "v100_pytorch"; nothing if there is none.
std::optional<std::string> kind_of(const ExampleRow& row);

/// The devices of so many GPUs of the row's machine, as a block `nodes` of a scenario; "" if the
/// machine is not known.
std::string nodes_of(const ExampleRow& row);

/// Whether a generator makes the row's model.
bool has_model(const ExampleRow& row);

/// Why no fit may use the row, and no block may count its speed; "" if they may. A model or kind of
/// device that is not known, and what dlexamples/README.md says is not what it
/// seems.
std::string unknown_speed(const ExampleRow& row);

/// What a row measures: one pass over a batch, and the update of the weights after it.
struct ExampleStep {
  OpGraph pass;    ///< forward, and backward if it trains
  OpGraph update;  ///< the same, with the update; no ops if it does not train
};
/// In the row's number format. The models are the published ones; what their READMEs do not say:
///   BERT: pretraining predicts 20 words of 128 or 80 of 512 (the authors' limits); nothing is
///     padding. Fine-tuning without a fused optimizer has one of ten kernels.
///   GNMT: sentences of 27 words on both sides, all of them counted; TensorFlow has the ops of
///     TensorFlow 1.
///   Transformer: sentences of 32 words, none of them padding.
/// `row` has a model.
ExampleStep example_step(const ExampleRow& row);

/// Flops of all passes and the update.
double flops_of(const ExampleRow& row, const ExampleStep& step);

/// What the row measured, in seconds: a latency, or a step (passes and update).
double measured_seconds(const ExampleRow& row);

/// A step on each of the row's GPUs, its ops launched one by one by the framework's thread: the
/// graph, its roofline times, the transforms `host` and, on several GPUs, `data_parallel`, and the
/// engine with `queue: program`. Gradients of several passes are summed after the last; of one, as
/// they come.
Duration simulated_step(const ExampleRow& row, const OpGraph& graph, const DeviceModel& device);
/// All passes of the row, and the update.
double simulated_seconds(const ExampleRow& row, const DeviceModel& device);
/// The same for a row whose step is known.
double simulated_seconds(const ExampleRow& row, const ExampleStep& step, const DeviceModel& device);

}  // namespace baechi::validate
