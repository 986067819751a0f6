#include <fmt/format.h>

#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

/// The model of the node kind `node`, of whose devices the first take part.
std::optional<Comparison> compare_all_reduces(const std::string& folder, const std::string& gpu,
                                              const std::string& node) {
  Comparison all;
  const std::vector<MeasuredAllReduce> measured = vtrain_all_reduces(folder, gpu, all.left);
  if (all.left.files.empty()) return std::nullopt;
  const Cluster cluster = cluster_of(fmt::format("nodes: {{kind: {}}}", node));
  for (const MeasuredAllReduce& m : measured)
    all.rows.push_back({.what = fmt::format("{} GPUs, {} MiB", m.ranks, m.bytes.count >> 20),
                        .group = fmt::format("{} GPUs", m.ranks),
                        .measured = m.us,
                        .simulated = simulated_us(m, cluster),
                        .work = m.moved(),
                        .size = static_cast<double>(m.bytes.count),
                        .lines = {m.line}});
  return all;
}

}  // namespace

std::optional<Comparison> compare_allreduce_a100(const std::string& folder) {
  return compare_all_reduces(folder, "a100", "dgx_a100");
}

std::optional<Comparison> compare_allreduce_v100(const std::string& folder) {
  return compare_all_reduces(folder, "v100", "dgx1_v100");
}

}  // namespace baechi::validate
