/// Collectives that were measured alone inside a node: measured/aiconfigurator/nccl.csv.
#pragma once
#include <string>
#include <vector>

#include "sim/graph/collective.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

struct MeasuredCollective {
  std::string system;  ///< as in the file: "h100_sxm"
  std::string kind;    ///< of the table in devices.yaml: "h100_nccl", which h200's rows share
  CollectiveKind op{};
  std::int64_t ranks = 0;
  Bytes bytes{};
  double us = 0.0;
  std::string line{};

  std::string key() const;  ///< system, op and ranks: "h100_sxm all_reduce 8"
};

/// Rows of systems without a table are skipped. Nothing if the folder has no such file.
std::vector<MeasuredCollective> measured_collectives(const std::string& folder, Leftovers& left);

/// All-reduces of 8 GPUs in public logs of nccl-tests (measured/public_logs/allreduce.csv).
std::vector<MeasuredCollective> public_all_reduces(const std::string& folder, Leftovers& left);

}  // namespace baechi::validate
