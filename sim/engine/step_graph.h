/// The parts of a graph and its costs that the engine reads, packed, independent of the placement;
/// collectives that have not started.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

/// Built from one Problem, whose parts must outlive it.
class StepGraph {
 public:
  explicit StepGraph(const Problem& problem);

  /// An op that reads a tensor, and the number of that input among all inputs of the graph. The
  /// inputs of one op have consecutive numbers, in the order of OpGraph::in_edges.
  struct Reader {
    OpId op{};
    std::uint32_t input = 0;
  };
  struct Weights {
    OpId op{};
    Bytes size{};
  };

  std::size_t num_ops() const { return ops_.size() - 1; }
  std::size_t num_tensors() const { return tensors_.size() - 1; }

  /// The part of `values` [num_edges] that belongs to the inputs of `v`.
  template <class T>
  std::span<T> inputs(OpId v, std::vector<T>& values) const {
    return {values.data() + ops_[index(v)].first_input,
            values.data() + ops_[index(v) + 1].first_input};
  }
  const IdVector<OpId, std::uint32_t>& num_inputs() const { return num_inputs_; }  ///< by op
  auto outputs(OpId v) const {
    return id_range<TensorId>(ops_[index(v)].first_output, ops_[index(v) + 1].first_output);
  }
  /// The edges that read `t`, as OpGraph::readers.
  std::span<const Reader> readers(TensorId t) const {
    return {readers_.data() + tensors_[index(t)].first_reader,
            readers_.data() + tensors_[index(t) + 1].first_reader};
  }
  Reader reader(EdgeId e) const { return readers_[index(e)]; }
  /// The edge of an element of readers().
  EdgeId edge(const Reader& reader) const { return static_cast<EdgeId>(&reader - readers_.data()); }

  Bytes output_bytes(OpId v) const { return ops_[index(v)].outputs; }
  Bytes temporary(OpId v) const { return ops_[index(v)].temporary; }
  std::span<const OpId> sources() const { return sources_; }  ///< ops without inputs, ascending

  Bytes size(TensorId t) const { return tensors_[index(t)].size; }
  Bytes copied(TensorId t) const {
    return tensors_[index(t)].is_copied ? tensors_[index(t)].size : Bytes{};
  }
  std::size_t num_lanes() const { return num_lanes_; }
  LaneKind lane(OpId v) const { return lane_.empty() ? compute_lane : lane_[v]; }
  /// The collective that `v` is a member of, or no_collective.
  CollectiveId collective(OpId v) const {
    return collective_.empty() ? no_collective : collective_[v];
  }
  bool instant(TensorId t) const { return tensors_[index(t)].instant; }
  std::span<const Weights> weights() const { return weights_; }  ///< only ops that have weights

  Duration compute(OpId v, DeviceId d) const {
    if (uniform_) return ops_[index(v)].compute;
    if (compute_.empty()) return costs_.compute(v, d);
    return compute_[column_[d] + index(v)];
  }
  void prefetch_start(OpId v) const { __builtin_prefetch(&ops_[index(v)]); }
  /// Prefetches the memory that is read when `v` ends.
  void prefetch_end(OpId v) const {
    __builtin_prefetch(readers_.data() + tensors_[ops_[index(v)].first_output].first_reader);
  }

  Duration transfer(TensorId t, DeviceId src, DeviceId dst) const {
    if (transfer_.empty()) return costs_.transfer(t, src, dst);
    return transfer_[t];
  }

 private:
  struct alignas(32) Op {
    Duration compute{};  // on the first device
    Bytes outputs{}, temporary{};
    std::uint32_t first_input = 0, first_output = 0;
  };
  struct Tensor {
    Bytes size{};
    std::uint32_t first_reader = 0;
    bool is_copied = false;  // false: copied() is 0
    bool instant = false;
  };

  void pack_costs(const Problem& problem);

  const CostModel& costs_;
  std::vector<Op> ops_;          // [num_ops + 1]
  std::vector<Tensor> tensors_;  // [num_tensors + 1]
  std::vector<Reader> readers_;  // [num_edges]
  std::vector<Weights> weights_;
  IdVector<OpId, std::uint32_t> num_inputs_;
  std::vector<OpId> sources_;
  bool uniform_ = true;                     // ops take the same time on all devices
  std::vector<Duration> compute_;           // [device classes, num_ops]; empty: call costs_
  IdVector<DeviceId, std::size_t> column_;  // begin of a device's times in compute_
  std::size_t num_lanes_ = 1;
  IdVector<OpId, LaneKind> lane_;            // empty: all in lane "compute"
  IdVector<OpId, CollectiveId> collective_;  // empty: there are none
  IdVector<TensorId, Duration> transfer_;    // between any two devices; empty: call costs_
};

class WaitingCollectives {
 public:
  /// Starts a step. `device`: [num_ops]. Throws InputError if two members of a collective are on
  /// the same device.
  void reset(const OpGraph& graph, const IdVector<OpId, DeviceId>& device);

  /// A member of `c` is ready.
  void arrive(CollectiveId c, TimePoint now);

  bool none_gathered() const { return gathered_.empty(); }

  /// Calls `start` for each collective whose members have all arrived, in the order of (arrival of
  /// the last member, id), and removes those for which it returns true.
  void start_gathered(auto start) { std::erase_if(gathered_, start); }

 private:
  struct Waiting {
    std::uint32_t missing = 0;  // members that have not arrived
    TimePoint last{};           // arrival of the last one
  };

  IdVector<CollectiveId, Waiting> waiting_;
  std::vector<CollectiveId> gathered_;  // by (last, id)
};

}  // namespace baechi
