/// Leaves out waits that follow from other waits.
#pragma once
#include <cstdint>
#include <vector>

namespace baechi::chakra {

/// `after` waits for `before`. `bytes` pass; -1: none, it is order alone.
struct Wait {
  std::size_t before = 0, after = 0;
  std::int64_t bytes = -1;
};

/// If the waits have a cycle, as in real files: erases waits for nodes with a higher number, and
/// returns their count. Nodes are numbered by the order in which they began.
std::size_t leave_out_backward(std::vector<Wait>& waits, std::size_t nodes);

/// Erases waits without bytes that follow from the others, and returns their number. Leaves all
/// waits if there is a cycle, or if there are more than 20,000 nodes: the sets of predecessors
/// would take too much memory.
std::size_t leave_out_implied(std::vector<Wait>& waits, std::size_t nodes);

}  // namespace baechi::chakra
