#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {

MakeVerb make_scale, make_set, make_limit, make_batch, make_remove, make_merge, make_insert,
    make_split, make_offload, make_collective, make_drop_edges, make_add_edge;

std::span<const VerbEntry> verbs() {
  static constexpr VerbEntry table[] = {
      {"scale", "multiplies times, bytes or work", make_scale},
      {"set", "sets times, bytes, work or the lane", make_set},
      {"limit", "limits bytes and traffic, relative to what an op reads", make_limit},
      {"batch", "scales the batch size: everything but weights and updates", make_batch},
      {"remove", "removes ops; their readers wait for their predecessors", make_remove},
      {"merge", "several ops become one", make_merge},
      {"insert", "a new op before or after each selected op, or one for all", make_insert},
      {"split", "an op, or a collective, becomes several equal parts", make_split},
      {"offload", "outputs are copied to the host and back before they are read again",
       make_offload},
      {"collective", "a collective of the outputs of the selected ops", make_collective},
      {"drop_edges", "removes edges to readers", make_drop_edges},
      {"add_edge", "selected ops wait for others", make_add_edge},
  };
  return table;
}

}  // namespace baechi::what_if
