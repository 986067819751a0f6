/// The properties of ops that verbs change, and sizes, absolute or relative.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "sim/options.h"
#include "sim/transform/what_if/verb.h"
#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

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
