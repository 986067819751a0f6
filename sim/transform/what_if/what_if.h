/// The transform `what_if`: rules that rewrite a step, applied in turn.
#pragma once
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

namespace baechi {

/// Before placing, rules without `after_placing` and transforms of the model are applied, in the
/// order of the list; after placing, the others.
/// Source: Daydream (Zhu et al., ATC 2020), section 5: select, scale, insert, remove, schedule.
/// A rule without `optional` selects no op.
struct NothingSelected : InputError {
  using InputError::InputError;
};

class WhatIfRules final : public Transform {
 public:
  /// Throws InputError with all mistakes of the rules.
  explicit WhatIfRules(Options& o);

  /// The same rules with known devices: graphs get times if a rule needs them, and `bound` uses
  /// work.
  std::shared_ptr<const Transform> on(what_if::StepDevices devices) const;

  /// apply() and after_placing() throw InputError if a rule that is not optional selects no op, or
  /// a verb does not apply to the selected ops.
  Transformed apply(const OpGraph& graph) const override;
  bool must_follow(std::string_view other) const override;
  bool applies(std::string_view other) const override;
  std::string no_pipeline(PipelineTraits pipeline) const override;
  std::int64_t devices() const override;
  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override;

 private:
  using Rules = std::vector<what_if::Rule>;

  WhatIfRules(std::shared_ptr<const Rules> rules, what_if::StepDevices devices)
      : rules_(std::move(rules)), devices_(std::move(devices)) {}

  std::shared_ptr<const Rules> rules_;
  what_if::StepDevices devices_{};
};

}  // namespace baechi
