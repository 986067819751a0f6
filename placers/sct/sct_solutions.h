/// A cache of solutions of m-SCT's linear program: points of a sweep often share the program.
#pragma once
#include <list>
#include <memory>
#include <mutex>

#include "placers/sct/favourite_child.h"

namespace baechi {

/// May be called from several threads at once. A thread that asks for a program that another thread
/// is solving waits for that solution.
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

}  // namespace baechi
