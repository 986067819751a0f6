/// A cache of solutions of m-SCT's linear program, which points of a sweep often share.
#pragma once
#include <list>
#include <memory>
#include <mutex>

#include "placers/sct/favourite_child.h"
#include "sim/problem/problem.h"

namespace baechi {

/// Thread-safe. A thread that asks for a program that another thread is solving waits for that
/// solution.
class SctSolutions {
 public:
  /// The canonical solution of `graph`, solved at the first call.
  std::shared_ptr<const SctSolution> of(const SctGraph& graph);

 private:
  struct Entry {
    explicit Entry(const SctGraph& g) : graph(g) {}
    const SctGraph graph;
    std::once_flag once;
    std::shared_ptr<const SctSolution> solution;
  };
  std::shared_ptr<Entry> entry_of(const SctGraph& graph);

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recently used first
};

/// The favourite child of each op of a problem, by m-SCT's linear program.
struct SctFavourites {
  IdVector<OpId, OpId> of{};  ///< [num_ops], or no_op
  std::size_t count = 0;      ///< ops that have one
  double program = 0.0;       ///< the program's optimum, in ns
};

/// `threshold`: an edge is a favourite if the program's x is at most this.
SctFavourites favourites_of(const Problem& problem, double threshold, SctSolutions& solutions);

}  // namespace baechi
