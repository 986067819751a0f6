/// The best configurations of an inference server for each batch, from measured latencies.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/studies/serving/profile_file.h"

namespace baechi::serving {

/// What is asked, in words.
struct ServingOrder {
  std::string file;            ///< as read_latency_profiles() takes it
  std::string threads;         ///< of the machine
  std::string batch;           ///< "32", "8,16,24", or "8..1024": the batches of the profiles
  std::string interference{};  ///< instances that are not alone take so many times as long; ""
  std::vector<std::string> where{};  ///< COLUMN=WORD: only such profiles
};

struct Configuration {
  std::int64_t batch = 0;
  std::optional<Duration> one_instance{};  ///< with all threads, where it was measured
  std::optional<ServingPlan> best{};       ///< nothing: infeasible

  /// one_instance / best; nothing without both.
  std::optional<double> speed_up() const;
};

struct ProfileConfigurations {
  LatencyProfile profile;
  std::int64_t threads = 0;
  double interference = 1.0;
  std::vector<Configuration> batches;

  std::optional<double> mean_speed_up() const;  ///< of the batches that have one
};

/// Throws InputError for a wrong file, a wrong word, or if no profile is left.
std::vector<ProfileConfigurations> configurations(const ServingOrder& order);

}  // namespace baechi::serving
