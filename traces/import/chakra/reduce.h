/// Transitive reduction of a trace's dependencies.
#pragma once
#include <cstdint>
#include <vector>

namespace baechi::chakra {

/// Node `after` waits for node `before`.
struct Wait {
  std::size_t before = 0, after = 0;
  std::int64_t bytes = -1;  ///< read by `after`; -1: a control dependency
};

/// If the dependencies have a cycle, as in some published traces: erases dependencies on nodes with
/// a higher number, and returns their count. Nodes are numbered in order of their start.
std::size_t erase_backward(std::vector<Wait>& waits, std::size_t nodes);

/// Erases control dependencies that are implied by the others, and returns their number. Erases
/// none if there is a cycle, or if there are more than 20,000 nodes: the bit sets of predecessors
/// would take too much memory.
std::size_t erase_implied(std::vector<Wait>& waits, std::size_t nodes);

}  // namespace baechi::chakra
