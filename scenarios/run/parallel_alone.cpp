// The build without MPI: one process.
#include <sched.h>

#include "scenarios/run/ranks.h"

namespace baechi {

Ranks::Ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): read only
    if (value != nullptr && std::string_view(value) != "1")
      throw InputError(
          "started by mpirun, but this baechi is built without MPI (Debian: apt install "
          "libopenmpi-dev, then build again); or use --shard");
  }
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    cores_ = static_cast<std::size_t>(std::max(1, CPU_COUNT(&mask)));
}
Ranks::~Ranks() = default;

int Ranks::disagreeing(std::uint64_t /*sweep*/) const { return -1; }
void Ranks::deal(const Sweep& /*sweep*/, std::span<const std::size_t> /*ids*/,
                 const RunSettings& /*settings*/, Journal& /*journal*/) const {}
void Ranks::work(const Sweep& /*sweep*/, std::size_t /*threads*/) const {}
void Ranks::abort(int code) const {
  std::exit(code);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace baechi
