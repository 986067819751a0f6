/// The Python classes Graph and Cluster.
#pragma once

#include "python/arrays.h"
#include "scenarios/run/experiment.h"

namespace baechi::python {

/// An immutable trace.
struct Graph {
  std::shared_ptr<const Trace> trace;
  const OpGraph& ops() const { return trace->graph; }
};
void define_graph(py::module_& m);

/// Views of a graph's times, sizes, edges and tensors, for Graph and Problem.
py::object compute_times(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object persistent_bytes(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object temporary_bytes(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object edge_sources(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object edge_readers(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object edge_tensors(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object tensor_bytes(const std::shared_ptr<const void>& owner, const OpGraph& graph);
py::object groups(const std::shared_ptr<const void>& owner, const OpGraph& graph);
std::vector<std::string> names(const OpGraph& graph);

/// A cluster and engine options. Caches the last graph with its costs.
struct ClusterSetup {
  ClusterChoice choice;
  EngineOptions engine;
  std::shared_ptr<const Trace> last{};
  std::shared_ptr<const CostedGraph> costed{};

  std::size_t num_devices() const;
  /// The experiment of `graph` on this cluster. Throws InputError.
  Experiment experiment(const Graph& graph, const std::vector<std::string>& transforms);
};
void define_cluster(py::module_& m);

void define_results(py::module_& m);
void define_frameworks(py::module_& m);
void define_placing(py::module_& m);

}  // namespace baechi::python
