/// Training steps that others measured: rows of their files in the words of 'baechi plan'.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/planning/parallel_step.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

/// What a row says. `generator`, `nodes`, `devices` and the flags of 'baechi plan' as there
/// (`micro_batch` for --micro-batch); other words are options of the generator.
using Words = std::map<std::string, std::string, std::less<>>;

/// The word's value, which is taken out; "" if it is not there.
std::string take(Words& words, std::string_view word);

/// The whole number that a word says, `least` or more; `unsaid` if there is no such word. Throws
/// InputError for others, or if the word must be there.
std::int64_t whole_of(const Words& words, std::string_view word,
                      std::optional<std::int64_t> unsaid = std::nullopt, std::int64_t least = 1);

/// The number above 0 that a word says, which is taken out. Throws InputError if there is none.
double take_number(Words& words, std::string_view word);

/// Makes words of a model that the program has the shape of, such as "llama3-8b". Throws
/// InputError, with the reason, for others.
void set_model(Words& words, std::string_view model);

struct Training {
  TrainingJob job;
  ParallelPlan plan;
  std::string nodes;          ///< a kind in devices.yaml
  std::string as;             ///< a kind of device in place of theirs; "": theirs
  std::string nics, network;  ///< in place of theirs, for each node; "": theirs
  std::int64_t devices = 1;   ///< of all nodes
};
/// Sets the options of a generator that words name, as rows have called them.
void set_options(Options& options, const Words& words);
/// Throws InputError if a number is none.
Training training_of(Words words);

/// What the program says of a training.
struct TrainedStep {
  double seconds = 0.0;
  Bytes peak{};       ///< of the fullest stage
  Bytes last_peak{};  ///< of the last stage
  bool fits = false;
  double flops = 0.0;         ///< of a device, for the step, without what is computed again
  double weights_read = 0.0;  ///< bytes of all weights in 32 bits, over tensor and pipeline ranks
};
/// Memory has no end; `fits` compares the peak. Throws InputError if the program cannot be asked.
TrainedStep trained(const Training& training);

/// A file of trainings. A block is a few lines of data, and what no column says.
struct TrainingFile {
  std::string path;          ///< below the folder
  std::string_view columns;  ///< as words_of() takes them
  /// Makes words of the generator and the plan of what the columns say, and fills in the row but
  /// for `simulated` and `work`. A row that it returns false for belongs to another block. Throws
  /// InputError for a row that the program cannot be asked.
  std::function<bool(Words&, PublishedRow&)> read;
  /// Writes `simulated` and, for the baseline, `work`.
  std::function<void(const TrainedStep&, PublishedRow&)> score;
};
/// The words of a row. `columns`: "model, gpus=devices" takes a column as the word `model`, and one
/// that is called `gpus` as the word `devices`. Empty fields say nothing.
Words words_of(const CsvTable& table, std::size_t row, std::string_view columns);
/// Trainings that are the same are simulated once. Nothing if the folder
/// lacks the file.
std::optional<Comparison> compare_trainings(const std::string& folder, const TrainingFile& file);

/// The step's seconds, with flops as the baseline's work.
void score_seconds(const TrainedStep& step, PublishedRow& row);

}  // namespace baechi::validate
