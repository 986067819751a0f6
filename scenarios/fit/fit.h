/// Does a model fit on these GPUs, how fast does it run, and by which means?
#pragma once

#include "scenarios/export/framework_file.h"
#include "scenarios/fit/fit_model.h"

namespace baechi {

struct FitQuestion {
  FitModel model;
  std::string command{};               ///< that asks it
  std::vector<DeviceChoice> gpus{};    ///< in the order of the layers
  std::vector<std::size_t> numbers{};  ///< of these GPUs, if they are some of another question's
  Bytes host{};                        ///< memory that may hold layers; 0: none was stated
  std::optional<Link> disk{};          ///< to the host, if weights may wait on it
  std::string host_kind{};             ///< of the device table
  Link between{}, to_host{};
  std::string link{};             ///< type of `between`
  std::vector<Evidence> links{};  ///< of `between` and `to_host`
  std::int64_t context = 0, batch = 1, prompt = 512;
  bool train = false;           ///< `batch` samples a step, in 16 bits
  std::int64_t lora_rank = 16;  ///< of adapters that are trained
  Bytes reserve{};              ///< of each GPU, for what is not in the graph

  std::size_t number(std::size_t gpu) const { return numbers.empty() ? gpu : numbers[gpu]; }
};

/// The flags of `baechi fit` that ask; "" and 0: not given.
struct FitWords {
  std::string model, gpus, memory, cpu_memory, cpu = "cpu_ddr4_2ch", dtype, reserve = "640 MiB";
  std::string disk, link = "pcie4_host", host_link = "pcie4_h2d";
  std::int64_t context = 0, batch = 0, prompt = 512, lora_rank = 0;
  bool train = false;
};
/// Throws InputError with all mistakes.
FitQuestion question_of(const FitWords& words);

/// Memory of one device, in the pass that holds most.
struct FitMemory {
  std::string device;
  Bytes limit{}, weights{}, cache{}, buffers{}, reserve{};
  Bytes waiting{};  ///< weights in host memory that it computes with
  Bytes spare() const { return limit - weights - cache - buffers - reserve; }
};

/// One way to run the model.
struct FitWay {
  std::string name;
  FitVariant variant{};
  bool fits = false;
  Bytes lacks{};           ///< if it does not fit
  Duration step{};         ///< for a token of each sequence, or of the graph
  Duration first_token{};  ///< of the prompt
  double per_second = 0;   ///< tokens, or samples
  std::vector<FitMemory> memory{};
  std::int64_t most_batch = 0, most_context = 0;  ///< 0: not asked
  std::string command{};
  std::vector<std::size_t> layers{};  ///< numbered ones, of each GPU
  std::size_t cpu_layers = 0;
  std::string cpu_experts{};       ///< llama.cpp's argument for experts on the CPU
  std::int64_t expert_layers = 0;  ///< whose experts are there
  Bytes waiting{};                 ///< weights in host memory that GPUs compute with
  std::size_t on_disk = 0;         ///< layers of these on the disk
  Bytes table{};                   ///< of words, in host memory, where its rows are read
  /// Module to device; GPUs.size(): the host, and one more the disk.
  std::vector<std::pair<std::string, std::size_t>> map{};
};

struct FitAnswer {
  std::string sentence;      ///< "fits: ..." or "does not fit: ..."
  bool fits = false;         ///< the model as it is, on GPUs alone
  std::vector<FitWay> ways;  ///< those that fit, fastest first, then the others
  std::vector<Evidence> evidence;
};

/// Where the way's layers compute or, with offload, wait.
LayerSplit split_of(const FitWay& way);

struct ExportedWay {
  std::string text;    ///< of the file
  std::string note{};  ///< what the file changes about the way
};
/// The way as a framework takes it. Throws InputError if the framework cannot say it.
ExportedWay exported_way(const FitQuestion& q, const FitWay& way, ExportFormat format);

/// The fastest plans of a training on equal GPUs, with all weights or adapters trained.
FitAnswer fit_training(const FitQuestion& question);

/// Throws InputError if the model or a device type cannot be simulated.
FitAnswer fit(const FitQuestion& question);

}  // namespace baechi
