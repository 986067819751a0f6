/// A graph with what its file says about it.
#pragma once
#include <cstdint>
#include <string>

#include "sim/graph/op_graph.h"

namespace baechi {

/// How much of a graph its source really knew; the rest is zero. Ops without outputs count as
/// having bytes if the source says so.
struct Coverage {
  std::size_t ops = 0, with_time = 0, with_bytes = 0, with_memory = 0;
};

struct Trace {
  OpGraph graph;
  std::string name;        ///< of the model; "" if the source has none
  std::string source;      ///< who made it, from what: free text
  std::string format;      ///< the importer's or generator's name
  std::int64_t batch = 0;  ///< samples per step; 0 if unknown
  Coverage coverage;
};

}  // namespace baechi
