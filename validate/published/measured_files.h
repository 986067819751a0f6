/// Files of measurements, and the clusters that they were measured on.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

/// The path of `file`, such as "measured/lambda/training.csv"; `folder` may also be laid out as
/// measured/ itself. Nothing if there is no such file.
std::optional<std::string> measured_path(const std::string& folder, std::string_view file);

/// The table in `file`, packed or not; nothing if there is no such file. `left` takes the
/// file and its lines that are no rows. Throws InputError if it cannot be read or is no table.
std::optional<CsvTable> read_measured(const std::string& folder, const std::string& file,
                                      Leftovers& left);

/// The cluster that a block `cluster` of a scenario says: "nodes: {kind: dgx_a100, count: 2}".
Cluster cluster_of(const std::string& block);

/// An all_reduce that was measured alone.
struct MeasuredAllReduce {
  std::int64_t ranks = 0;
  Bytes bytes{};
  double us = 0.0;
  std::string line{};

  /// Bytes that a rank sends.
  double moved() const {
    return 2.0 * static_cast<double>(bytes.count) * static_cast<double>(ranks - 1) /
           static_cast<double>(ranks);
  }
};
/// vTrain's out-of-place times of `gpu` ("a100", "v100"), of 2 to 8 ranks as far as `folder` has
/// them; `ranks`: of these numbers of ranks only, if not empty.
std::vector<MeasuredAllReduce> vtrain_all_reduces(const std::string& folder, const std::string& gpu,
                                                  Leftovers& left,
                                                  const std::vector<std::int64_t>& ranks = {});

/// What the cluster's model says of it, among the first `ranks` devices.
double simulated_us(const MeasuredAllReduce& measured, const Cluster& cluster);

}  // namespace baechi::validate
