/// The fastest configuration of model instances, with threads and batch of each, for a batch.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/units.h"

namespace baechi::serving {

/// Latency of one instance, by its threads and its batch.
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

}  // namespace baechi::serving
