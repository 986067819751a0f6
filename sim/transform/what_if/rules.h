/// Rules of what-ifs as a file states them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/transform/what_if/verb.h"
#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

/// A verb and the ops that it is about; or another transform, by its name.
struct Rule {
  std::string place;  ///< in its file, "x.yaml:3:5"
  std::string name;   ///< of the verb or transform
  std::unique_ptr<const Verb> verb{};
  Where where{};
  bool optional = false;                         ///< it may select nothing
  bool after_placing = false;                    ///< the verb works on the placed step
  std::unique_ptr<const Transform> transform{};  ///< instead of a verb
  TransformUse use{};                            ///< of `transform`
};

/// Reads a list of rules:
///     - scale: {time: 0.5}          a verb and its options
///       where: {kind: conv}         every op, if not given
///       optional: true              it may select no op
///       after_placing: true         it works on the step with devices
///     - precision: {to: amp}        a transform and its options
/// Throws InputError with all mistakes: no list; not one verb or transform in a rule; a transform
/// that placers alone see; unknown or wrong options and conditions.
std::vector<Rule> read_rules(const Options::Value& list);

}  // namespace baechi::what_if
