/// The verbs of what-if rules. A verb is a pure function of a step and some of its ops.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "sim/options.h"
#include "sim/transform/what_if/step.h"

namespace baechi::what_if {

class Verb {
 public:
  virtual ~Verb() = default;
  /// Throws InputError if it does not apply to the selected ops.
  virtual Change apply(const Scope& scope, const Selection& selected) const = 0;
  /// Whether it reads or changes times, so that the graph must have them.
  virtual bool needs_times() const { return false; }
  /// Factor on the samples per step. A verb with another value than 1 applies to all ops, before
  /// placing.
  virtual double samples() const { return 1.0; }
};

using MakeVerb = std::unique_ptr<Verb>(Options&);
struct VerbEntry {
  std::string_view name;
  std::string_view summary;
  MakeVerb* make;
};
std::span<const VerbEntry> verbs();

}  // namespace baechi::what_if
