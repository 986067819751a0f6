/// Files of policies: JSON with all that a placer needs to act, and of training that was stopped.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "placers/learned/training.h"

namespace baechi::learned {

/// A policy that was trained.
struct Policy {
  std::string scenario;           ///< name of the file it was trained on, for people
  std::string digest;             ///< of the graphs, clusters and engines that it was trained on
  std::size_t evaluations = 0;    ///< that training took
  std::uint64_t seed = 0;         ///< of training
  std::vector<double> weights{};  ///< of list_network()
};

/// The text of a policy's file. Weights are rounded to multiples of 2^-14, so that it is short.
std::string policy_text(const Policy& policy);
/// Throws InputError with "path:line:column: what" for each mistake: another format or version,
/// features that this program's network does not read, a wrong number of weights.
Policy parse_policy(const std::string& text, const std::string& path);
/// Throws InputError if the file cannot be read, and as parse_policy() does.
Policy read_policy(const std::string& path);

/// Training that was stopped.
struct StoppedTraining {
  std::string digest;
  TrainingSettings settings{};
  TrainingState state{};
  std::vector<Samples> samples{};  ///< without devices and scores
  std::vector<CurveRow> curve{};   ///< so far
};
std::string stopped_text(const StoppedTraining& stopped);
/// As parse_policy().
StoppedTraining parse_stopped(const std::string& text, const std::string& path);

}  // namespace baechi::learned
