/// Selects the ops of a what-if rule.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "sim/options.h"
#include "sim/transform/what_if/step.h"

namespace baechi::what_if {

/// Conditions of which all must hold; without any, every op is selected.
///   name, lane: patterns, or lists of them; the whole text must be as one of them.
///   kind: words as KindWords describes kinds.
///   layer: patterns of a module of the model; ops of modules inside it are selected, too.
///   phase: forward, backward or update, or a list.
///   bound: compute, memory or host: what decides an op's time. By its work on the first device
///     whose model is known; without, by its kind.
///   work: known or unknown.
///   time, bytes, weights: such as ">10 us", "<= 1 MB": of the op; of all that it writes.
///   reads, read_by: conditions; some op that it reads from, or that reads it, fulfils them.
///   not: conditions that must not hold. any: a list of conditions, one of which must hold.
class Where {
 public:
  /// `value`: null selects every op. Throws InputError with all mistakes.
  static Where read(const Options::Value* value);

  Selection select(const Scope& scope) const;
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
