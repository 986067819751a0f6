/// The fastest configuration of model instances, with threads and batch of each, for a batch.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "sim/units.h"

namespace baechi::serving {

using LatencyTable = std::map<std::pair<std::int64_t, std::int64_t>, Duration>;

/// Concurrent instances that together serve a batch.
struct ServingPlan {
  struct Instances {
    std::int64_t count = 0, threads = 0, batch = 0;  ///< threads and batch of each
    friend bool operator==(const Instances&, const Instances&) = default;
  };
  Duration latency{};                ///< of the slowest
  std::vector<Instances> instances;  ///< the slowest first
  std::int64_t count() const;
};

/// The configuration of least latency whose threads are at most `threads` and whose batches sum to
/// `batch`. Concurrent instances take `interference` times as long. Ties: the configuration without
/// its slowest instance is optimal, too; then the slowest has most threads, then the largest batch.
/// Nothing if the table has none.
/// Source: Packrat (ICML 2025): opt[t, b] = min over (t', b') of max(opt[t - t', b - b'], L[t',
/// b']); takes time threads x batch x entries of the table.
std::optional<ServingPlan> best_serving(const LatencyTable& table, std::int64_t threads,
                                        std::int64_t batch, double interference = 1.0);

inline constexpr std::int64_t most_threads = 1024, most_batch = 65'536;

/// The latencies of one model, engine and so on: rows with equal values in all other columns.
struct LatencyProfile {
  std::vector<std::pair<std::string, std::string>> of;  ///< column and value
  LatencyTable latency;
};

/// Reads a CSV with columns threads, batch and mean_ms; other columns distinguish profiles, which
/// are sorted by these values. `path` begins messages. Throws InputError with up to 20 mistakes,
/// each with line and column.
std::vector<LatencyProfile> read_latency_profiles(std::string_view text, const std::string& path);

/// The texts between commas: the cells of a line, or the items of a list.
std::vector<std::string> comma_separated(std::string_view line);

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
