/// Selects the ops of a what-if rule.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "sim/cluster/device_model.h"
#include "sim/options.h"
#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {

/// [num_ops] By work on the first device with a known model (sim/cluster/device_model.h). Without
/// work or model: host in a lane of the host, compute for compute_bound_kinds(), else memory.
IdVector<OpId, Bound> bounds_of(const Scope& scope);

/// Bytes of the outputs of `v`, references included.
Bytes written_by(const OpGraph& graph, OpId v);

/// A conjunction of conditions; without any, every op is selected.
///   name, lane: wildcard patterns of the whole text, or lists of them.
///   kind: words of KindWords.
///   layer: patterns of a module path; ops of nested modules are selected, too.
///   phase: forward, backward or update, or a list.
///   bound: compute, memory or host (bounds_of).
///   work: known or unknown.
///   time, bytes, weights: such as ">10 us", "<= 1 MB": compute time, outputs, persistent bytes.
///   reads, read_by: conditions that some op from which it reads, or that reads it, fulfils.
///   not: conditions that must not hold. any: a list of conditions, one of which must hold.
class Where {
 public:
  /// `value`: null selects every op. Throws InputError with all mistakes.
  static Where read(const Options::Value* value);

  Selection select(const Scope& scope) const;
  bool all() const { return conditions_.empty(); }
  bool needs_times() const { return needs_times_; }

 private:
  using Condition = std::function<Selection(const Scope&)>;

  void add(const std::string& key, const Options::Value& value);
  void add_nested(const std::string& key, const Options::Value& value);
  void add_quantity(const std::string& key, const Options::Value& value);

  std::vector<Condition> conditions_;
  bool needs_times_ = false;
};

}  // namespace baechi::what_if
