/// Collectives that have not started: missing members, and those whose members have all arrived.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

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
