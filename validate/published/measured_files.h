/// Files of measurements, and the clusters that they were measured on.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/csv_table.h"

namespace baechi::validate {

/// The table in `folder`/`file`; nothing if there is no such file. Throws InputError if it cannot
/// be read or is no table.
std::optional<CsvTable> read_measured(const std::string& folder, const std::string& file);

/// The cluster that a block `cluster` of a scenario says: "nodes: {kind: dgx_a100, count: 2}".
Cluster cluster_of(const std::string& block);

/// An all_reduce that was measured alone.
struct MeasuredAllReduce {
  std::int64_t ranks = 0;
  Bytes bytes{};
  double us = 0.0;
};
/// vTrain's out-of-place times of `gpu` ("a100", "v100"), of 2 to 8 ranks as far as `folder` has
/// them; `ranks`: of these numbers of ranks only, if not empty.
std::vector<MeasuredAllReduce> vtrain_all_reduces(const std::string& folder, const std::string& gpu,
                                                  const std::vector<std::int64_t>& ranks = {});

/// What the cluster's model says of it, among the first `ranks` devices.
double simulated_us(const MeasuredAllReduce& measured, const Cluster& cluster);

}  // namespace baechi::validate
