/// Selects the ops of a what-if rule, and changes their properties and sizes.
#pragma once
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

/// "4 MB", or "0.25x" the bytes of the op, rounded up.
struct Amount {
  Bytes fixed{};
  double share = 0.0;

  Bytes of(Bytes whole) const;
};

/// The option `key`; nothing if not given. Accepts a size, or a factor from 0x to 1000x.
std::optional<Amount> read_amount(Options& o, const std::string& key, std::string_view help);

/// Functions from the old value to the new one; properties without a function stay.
struct Attributes {
  std::function<Duration(Duration)> time{}, transfer{};
  std::function<Bytes(Bytes)> bytes{}, weights{}, workspace{}, traffic{};
  std::function<std::int64_t(std::int64_t)> flops{};
  std::optional<std::string> lane{};
  /// Restricts tensors to those that one of these ops reads.
  std::optional<Where> to{};

  bool needs_times() const { return time != nullptr || (to && to->needs_times()); }
};

/// The step with new properties of the selected ops and of their outputs. `transfer`: the time of a
/// transfer between two devices. `bytes` of a member of a collective are the collective's.
Change with_attributes(const Scope& scope, const Selection& selected, const Attributes& changed);

/// The conditions of the option `key` of a verb; nothing if not given.
std::optional<Where> read_where(Options& o, const std::string& key, std::string_view help);
inline std::optional<Where> read_to(Options& o) {
  return read_where(o, "to", "conditions of readers: only outputs that one of these ops reads");
}

/// [num_tensors] The data tensors of selected ops that an op of `to` reads; all without `to`.
IdVector<TensorId, bool> tensors_of(const Scope& scope, const Selection& selected,
                                    const std::optional<Where>& to);

}  // namespace baechi::what_if
