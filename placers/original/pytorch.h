/// The PyTorch variant of the original: its graph, its memory and its m_topo, which place() calls.
/// Its m_etf and m_sct are pytorch_scheduler() of etf.h.
#pragma once
#include "placers/original/original.h"

namespace baechi::original {

/// The variant's view of a Problem (PT1, PT8): one tensor per edge, with the size and time of all
/// tensors of the producer that the reader reads. Persistent bytes are not part of the outputs.
/// Throws InputError if the cluster is not uniform.
Graph pytorch_graph(const Problem& problem);

/// The bytes in use per device (PT3): nothing that was charged is ever freed.
class PyTorchMemory {
 public:
  /// `device`: the placement so far, no_device for unplaced ops. All arguments must outlive this.
  PyTorchMemory(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                const IdVector<OpId, DeviceId>& device)
      : graph_(graph),
        limits_(limits),
        device_(device),
        held_(graph.num_tensors() * limits.size(), false),
        used_(limits.size()),
        peak_(limits.size()) {}

  static Bytes permanent(const Graph::Op& op) { return op.persistent + op.outputs; }
  static Bytes peak_of(const Graph::Op& op) { return permanent(op) + op.temporary; }

  /// Whether the op while it runs, and any earlier peak with the op's weights, fit together with
  /// the inputs that `d` would receive. Throws Stop if a producer is not placed.
  bool fits(OpId v, DeviceId d) const;
  /// Charges `v`, which has been placed on `d`, and all inputs it will receive. Throws Stop as
  /// fits().
  void charge(OpId v, DeviceId d);
  /// The tensor of an edge arrives on `d`; true if it was not there before. PT5: throws Stop if,
  /// after the tensor is charged, the free memory could not hold it a second time.
  bool receive(EdgeId e, DeviceId d);

  const IdVector<DeviceId, Bytes>& used() const { return used_; }
  const IdVector<DeviceId, Bytes>& peak() const { return peak_; }

 private:
  bool held(TensorId t, DeviceId d) const { return held_[index(t) * limits_.size() + index(d)]; }
  Bytes inputs(OpId v, DeviceId d) const;

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const IdVector<OpId, DeviceId>& device_;
  std::vector<bool> held_;  // [num_tensors, num_devices], received
  IdVector<DeviceId, Bytes> used_;
  IdVector<DeviceId, Bytes> peak_;
};

PlacerResult pytorch_topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                          const PlacerOptions& options);

}  // namespace baechi::original
