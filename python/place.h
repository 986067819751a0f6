/// The Python class Placement.
#pragma once
#include "python/graph.h"

namespace baechi::python {

struct PlacedGraph {
  Graph graph;
  Placement placement;
  std::size_t devices = 0;
};

/// Converts a Placement, a sequence of devices by op number, or a dict by op name. Throws
/// InputError with prefix `where`.
Placement placement_of(const py::object& answer, const Problem& problem, const std::string& where);

}  // namespace baechi::python
