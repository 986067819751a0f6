/// The best configurations of an inference server for each batch, from measured latencies.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/studies/serving/profile_file.h"

namespace baechi::serving {

/// The arguments of a query, as text.
struct ServingOrder {
  std::string file;                  ///< for read_latency_profiles()
  std::string threads;               ///< of the machine
  std::string batch;                 ///< "32", "8,16,24", or "8..1024": the batches of the profiles
  std::string interference{};        ///< slowdown factor of concurrent instances; "": none
  std::vector<std::string> where{};  ///< COLUMN=WORD: selects profiles
};

struct Configuration {
  std::int64_t batch = 0;
  std::optional<Duration> one_instance{};  ///< with all threads; nothing if not measured
  std::optional<ServingPlan> best{};       ///< nothing: infeasible

  /// one_instance / best; nothing without both.
  std::optional<double> speed_up() const;
};

struct ProfileConfigurations {
  LatencyProfile profile;
  std::int64_t threads = 0;
  double interference = 1.0;
  std::vector<Configuration> batches;

  std::optional<double> mean_speed_up() const;  ///< over the batches that have one
};

/// Throws InputError for an invalid file or argument, or if no profile is left.
std::vector<ProfileConfigurations> configurations(const ServingOrder& order);

}  // namespace baechi::serving
