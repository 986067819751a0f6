#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {

MakeVerb make_scale, make_set, make_limit, make_batch, make_remove, make_merge, make_insert,
    make_split, make_offload, make_collective, make_drop_edges, make_add_edge;

std::span<const VerbEntry> verbs() {
  static constexpr VerbEntry table[] = {
      {"scale", "multiplies times, bytes or work", make_scale},
      {"set", "sets times, bytes, work or the lane", make_set},
      {"limit", "bytes and traffic, at most so many times what an op reads", make_limit},
      {"batch", "so many times the samples: all but weights and updates grows", make_batch},
      {"remove", "what an op waited for is what its readers wait for", make_remove},
      {"merge", "several ops become one", make_merge},
      {"insert", "a new op before or after each selected op, or one for all", make_insert},
      {"split", "an op, or a collective, becomes several equal parts", make_split},
      {"offload", "outputs are copied to the host and back before they are read again",
       make_offload},
      {"collective", "a collective of what the selected ops write", make_collective},
      {"drop_edges", "readers no longer read, or wait", make_drop_edges},
      {"add_edge", "selected ops wait for others", make_add_edge},
  };
  return table;
}

}  // namespace baechi::what_if
