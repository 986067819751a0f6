/// A copy of a step in the making, with changes op by op: the base of most verbs.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/transform/graph_copy.h"
#include "sim/transform/what_if/step.h"

namespace baechi::what_if {

/// First declare the changes, then call ops(), edges(), built(). Ids of new ops and tensors are the
/// builder's.
class Copying {
 public:
  explicit Copying(const OpGraph& graph);  ///< `graph` outlives this

  std::function<bool(OpId)> keeps{};  ///< not given: all
  std::function<void(OpId, OpSpec&)> respec{};
  std::function<Duration(OpId, Duration, std::size_t kind)> retime{};
  std::function<OpWork(OpId, OpWork)> rework{};
  std::function<Bytes(TensorId)> resize{};
  std::function<void(OpId)> before{}, after{};  ///< the copy of an op is made

  void ops();
  /// Edges between kept ops, except edges for which `keep` is false.
  void edges(const std::function<bool(const Edge&)>& keep = {});

  /// A new op on the device of `beside`, and in its group. With kernels, its time is by its work
  /// unless `time` is given.
  OpId insert(const OpSpec& spec, OpId beside, const OpWork& work = {},
              std::optional<Duration> time = std::nullopt);
  /// A name that no op has: `name`, or with a number behind it.
  std::string fresh(const std::string& name);

  OpGraphBuilder& builder() { return copy_.builder(); }
  GraphCopy& copy() { return copy_; }
  OpId made(OpId v) const { return copy_.copy_of(v); }
  TensorId tensor(TensorId t) const { return tensors_[t]; }  ///< of a kept op

  Change built() &&;

 private:
  const OpGraph& graph_;
  GraphCopy copy_;
  IdVector<TensorId, TensorId> tensors_;
  IdVector<OpId, OpId> beside_;                   // [ops of the builder]
  std::unordered_set<std::string_view> names_;    // of the graph, once fresh() was asked
  std::vector<std::pair<OpId, OpId>> colocated_;  // new ops, and what they are beside
};

}  // namespace baechi::what_if
