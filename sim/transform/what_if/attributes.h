/// The properties of ops that `scale` and `set` change.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "sim/transform/what_if/verb.h"
#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

/// New values, each from the old value; values that are not given stay.
struct Attributes {
  std::function<Duration(Duration)> time{}, transfer{};
  std::function<Bytes(Bytes)> bytes{}, weights{}, workspace{}, traffic{};
  std::function<std::int64_t(std::int64_t)> flops{};
  std::optional<std::string> lane{};
  /// Only tensors of a selected op that one of these ops reads. Nothing: all its outputs.
  std::optional<Where> to{};

  bool needs_times() const { return time != nullptr || (to && to->needs_times()); }
};

/// The step with new properties of the selected ops and of their outputs. `transfer` is the time of
/// a transfer between two devices. `bytes` of a member of a collective are the collective's.
Change with_attributes(const Scope& scope, const Selection& selected, const Attributes& changed);

/// The option `to` of a verb.
std::optional<Where> read_to(Options& o);

/// [num_tensors] Which tensors of selected ops an op of `to` reads; all of them without `to`.
/// Control tensors are none.
IdVector<TensorId, bool> tensors_of(const Scope& scope, const Selection& selected,
                                    const std::optional<Where>& to);

}  // namespace baechi::what_if
