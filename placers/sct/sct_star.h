/// The optimum of a part of m-SCT's linear program whose edges all leave, or all enter, one op: one
/// tensor with many readers, or one op of many inputs. No solver is needed. Inner header of
/// solve_sct.
#pragma once
#include <optional>
#include <vector>

#include "placers/sct/sct_reduction.h"

namespace baechi {

struct SctStar {
  std::vector<double> x;     // [part.edges] the canonical optimum
  std::vector<double> flow;  // [block.edge] multipliers of the time rows, of sum 1
  bool out = false;          // whether the edges leave the op, else enter it
  double price = 0.0;        // ns; multiplier of the op's degree row
};

/// Nothing if `part` is not a star. A star is one block; each of its edges has a node of its own at
/// one end, and no other open edge touches its nodes. Takes O(E log E) time for E edges.
std::optional<SctStar> solve_star(const SctReduction& reduction, const SctPart& part);

}  // namespace baechi
