/// Runs the micro-benchmarks: measurements.csv and machine.txt.
#pragma once

#include "validate/cuda/machine.h"
#include "validate/plan/benchmarks.h"

namespace baechi::validate::replay {

struct MeasureOptions {
  std::string folder;
  int devices = 4;
  int rounds = 30;       ///< passes over all benchmarks, each in another random order
  double seconds = 150;  ///< no pass begins later than this
  std::uint64_t seed = 1;
  bool green_contexts = true;
  bool cublas = false;  ///< the benchmarks with cuBLAS instead
  bool more = false;    ///< adds to the folder's files, and leaves out earlier failures
};

/// Exit code: 1 if a benchmark failed; the others are there all the same. Throws Skip if there is
/// no usable GPU, GpuLost if it is lost underway. The files then have all finished measurements.
int measure(const MeasureOptions& options);

/// Largest needs of `plans`, and at least as much as makes caches miss.
MachineOptions machine_for(const std::vector<const ReplayPlan*>& plans, int devices);

/// A random order of 0 to n - 1, the same for equal seeds.
std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed);

/// Writes settled.txt, a line per question, and prints it. Exit code: 1 if an answer is bad for the
/// method. Throws Skip where there is no usable GPU.
int settle(const std::string& folder, int devices);

}  // namespace baechi::validate::replay
