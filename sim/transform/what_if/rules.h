/// Rules of what-ifs, and how they are read from options.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/transform/what_if/verb.h"
#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

/// A verb and the ops to which it applies; or another transform.
struct Rule {
  std::string place;  ///< in its file, "x.yaml:3:5"
  std::string name;   ///< of the verb or transform
  std::unique_ptr<const Verb> verb{};
  Where where{};
  bool optional = false;                         ///< it may select no op
  bool after_placing = false;                    ///< the verb applies to the placed step
  std::unique_ptr<const Transform> transform{};  ///< instead of a verb
  TransformUse use{};                            ///< of `transform`
};

/// Reads a list of rules:
///     - scale: {time: 0.5}          a verb and its options
///       where: {kind: conv}         every op, if not given
///       optional: true              it may select no op
///       after_placing: true         it applies to the placed step
///     - precision: {to: amp}        a transform and its options
/// Throws InputError with all mistakes: no list; a rule without exactly one verb or transform; a
/// transform with TransformUse::placing; unknown or wrong options and conditions.
std::vector<Rule> read_rules(const Options::Value& list);

}  // namespace baechi::what_if
