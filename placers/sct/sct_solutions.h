/// Solutions of m-SCT's linear program that are wanted again: points of a sweep often share it.
#pragma once
#include <list>
#include <memory>
#include <mutex>

#include "placers/sct/favourite_child.h"

namespace baechi {

/// Safe from several threads; who asks for one that is being solved waits for it.
class SctSolutions {
 public:
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
  std::list<std::shared_ptr<Entry>> entries_;  // the last wanted first
};

}  // namespace baechi
