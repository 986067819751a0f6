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
  /// Throws InputError if it cannot do this to the selected ops.
  virtual Change apply(const Scope& scope, const Selection& selected) const = 0;
  /// Whether it reads or changes times, which the graph must then have.
  virtual bool needs_times() const { return false; }
  /// So many times the samples of the step are in the step that it makes. Other than 1: it is about
  /// all ops, before placing.
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
