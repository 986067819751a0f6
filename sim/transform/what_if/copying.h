/// Builds a copy of a step with changes op by op: the base of most verbs.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/transform/graph_copy.h"
#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {

/// First set the callbacks, then call ops(), edges(), built(). Ids of new ops and tensors are the
/// builder's.
class Copying {
 public:
  explicit Copying(const OpGraph& graph);  ///< `graph` outlives this

  std::function<bool(OpId)> keeps{};  ///< default: all
  std::function<void(OpId, OpSpec&)> respec{};
  std::function<Duration(OpId, Duration, std::size_t kind)> retime{};
  std::function<OpWork(OpId, OpWork)> rework{};
  std::function<Bytes(TensorId)> resize{};
  std::function<void(OpId)> before{}, after{};  ///< called before, and after, an op is copied

  void ops();
  /// Copies edges between kept ops, except those for which `keep` is false.
  void edges(const std::function<bool(const Edge&)>& keep = {});

  /// A new op on the device of `anchor`, and in its group. Its time follows from `work` unless
  /// `time` is given.
  OpId insert(const OpSpec& spec, OpId anchor, const OpWork& work = {},
              std::optional<Duration> time = std::nullopt);
  /// A unique name: `name`, with a number appended if necessary.
  std::string unique_name(const std::string& name);

  OpGraphBuilder& builder() { return copy_.builder(); }
  GraphCopy& copy() { return copy_; }
  OpId made(OpId v) const { return copy_.copy_of(v); }
  TensorId tensor(TensorId t) const { return tensors_[t]; }  ///< of a kept op

  Change built() &&;

 private:
  const OpGraph& graph_;
  GraphCopy copy_;
  IdVector<TensorId, TensorId> tensors_;
  IdVector<OpId, OpId> anchor_;                   // [ops of the builder]
  std::unordered_set<std::string_view> names_;    // of the graph, filled by unique_name()
  std::vector<std::pair<OpId, OpId>> colocated_;  // new ops and their anchors
};

}  // namespace baechi::what_if
