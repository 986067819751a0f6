/// The properties of ops that `scale` and `set` change.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "sim/transform/what_if/verb.h"
#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

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

/// The option `to` of a verb.
std::optional<Where> read_to(Options& o);

/// [num_tensors] The data tensors of selected ops that an op of `to` reads; all without `to`.
IdVector<TensorId, bool> tensors_of(const Scope& scope, const Selection& selected,
                                    const std::optional<Where>& to);

}  // namespace baechi::what_if
