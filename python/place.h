/// Placements as Python sees them.
#pragma once
#include "python/graph.h"

namespace baechi::python {

struct PlacedGraph {
  Graph graph;
  Placement placement;
  std::size_t devices = 0;
};

/// The placement that Python gave: a Placement, a device for each op by number, or a dict by name.
/// Throws InputError, which begins with `where`.
Placement placement_of(const py::object& answer, const Problem& problem, const std::string& where);

}  // namespace baechi::python
