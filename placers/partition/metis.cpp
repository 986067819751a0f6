#include <metis.h>

#include <numeric>

#include "placers/interface/placer.h"
#include "placers/partition/partition.h"
#include "placers/solver/metis_lock.h"

namespace baechi::partition {
namespace {

/// METIS has 32-bit weights: scales `values` so that their sum has at most 30 bits; only 0 becomes
/// 0.
std::vector<idx_t> in_32_bits(const std::vector<std::int64_t>& values) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const std::int64_t sum = std::accumulate(values.begin(), values.end(), std::int64_t{0});
  const std::int64_t divisor = sum / most + 1;
  std::vector<idx_t> scaled;
  for (const std::int64_t value : values)
    scaled.push_back(static_cast<idx_t>((value + divisor - 1) / divisor));
  return scaled;
}

/// METIS prints complaints about empty parts to standard output. While this object lives, printf()
/// writes to /dev/null.
class SilentStdout {
 public:
  SilentStdout() : stdout_(stdout), null_(std::fopen("/dev/null", "w")) {
    if (null_ != nullptr) stdout = null_;
  }
  ~SilentStdout() {
    stdout = stdout_;
    if (null_ != nullptr) std::fclose(null_);
  }
  SilentStdout(const SilentStdout&) = delete;
  SilentStdout& operator=(const SilentStdout&) = delete;

 private:
  std::FILE* stdout_;
  std::FILE* null_;
};

std::vector<std::int64_t> partition_by_metis(const Partition::Graph& graph, std::size_t parts,
                                             std::uint64_t seed) {
  std::vector<idx_t> begin(graph.begin.begin(), graph.begin.end());
  std::vector<idx_t> neighbour(graph.neighbour.begin(), graph.neighbour.end());
  std::vector<idx_t> weight = in_32_bits(graph.weight), cost = in_32_bits(graph.cost);
  // METIS requires costs of at least 1, although a cut may cost nothing.
  for (idx_t& c : cost) c = std::max<idx_t>(c, 1);
  idx_t vertices = static_cast<idx_t>(weight.size()), constraints = 1, cut = 0;
  idx_t num_parts = static_cast<idx_t>(parts);
  std::vector<idx_t> part(weight.size());
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = static_cast<idx_t>(seed & 0x7fffffffU);
  const std::scoped_lock lock(solver::metis_lock());
  const SilentStdout nothing_printed;
  const int status = METIS_PartGraphKway(&vertices, &constraints, begin.data(), neighbour.data(),
                                         weight.data(), nullptr, cost.data(), &num_parts, nullptr,
                                         nullptr, options, &cut, part.data());
  if (status != METIS_OK) throw std::runtime_error("metis: METIS_PartGraphKway failed");
  return {part.begin(), part.end()};
}

}  // namespace

/// A balanced partition with the smallest edge cut that METIS's k-way partitioning finds.
/// Source: Karypis and Kumar, SIAM J. Sci. Comput. 1998; as the Scotch baseline of Tarnawski et al.
std::unique_ptr<Placer> make_metis(Options&) {
  return placer_of([](const Problem& p, std::uint64_t seed) -> Placement {
    const Partition partition(p);
    const Partition::Graph graph = partition.graph();
    const std::size_t parts = partition.devices().size();
    std::vector<std::int64_t> part(graph.weight.size(), 0);
    if (part.size() <= parts)
      std::iota(part.begin(), part.end(), std::int64_t{0});
    else if (parts > 1)
      part = partition_by_metis(graph, parts, seed);
    return partition.in_ops(part);
  });
}

}  // namespace baechi::partition
