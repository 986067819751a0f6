/// Generates arena instances: scenario files of random graphs.
#pragma once

#include "sim/problem/problem.h"

namespace baechi {

/// A scenario file.
struct ArenaFile {
  std::string name;  ///< of the scenario; the file is NAME.yaml
  std::string text;
};

/// For each of five families (cells, recurrent, seq2seq, blocks, and layers of training) in three
/// sizes, on one of three clusters (four V100s; two nodes of two; two V100s and two T4s with half
/// the memory), a file of eight instances: two bandwidths times four memory sizes, which are 1.05,
/// 1.2, 1.5 and 2 times least_memory(). The same seed gives the same bytes. Calls `done` after each
/// file.
std::vector<ArenaFile> make_arena_files(std::uint64_t seed, const std::function<void()>& done = {});

/// The factor, to 5 %, by which the memory of the problem's cluster may shrink or must grow until
/// the step of a quick placer (the first of m_etf, heft, m_topo and least_loaded that fits) just
/// fits.
double least_memory(const Problem& problem);

}  // namespace baechi
