/// The calls that enclose each call of a recording, found in one pass because calls may nest
/// deeply.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/kineto/recording.h"

namespace baechi::kineto {

inline constexpr std::size_t none = ~std::size_t{0};

struct CallContext {
  std::size_t op = none;             ///< the outermost op; the call itself if there is none
  std::size_t scope = none;          ///< the innermost record_function of the user, or none
  std::size_t communication = none;  ///< the innermost call that describes a collective, or none
  Phase phase = Phase::forward;
  bool in_op = false;  ///< whether the call is an op or within one
};

/// [recording.calls] A call counts as enclosing itself.
std::vector<CallContext> call_contexts(const Recording& recording);

/// Path of the user's innermost 64 record_functions contexts call `i`, outermost first:
/// "encoder.layer1".
std::string scopes(const Recording& recording, const std::vector<CallContext>& contexts,
                   std::size_t i);

/// Whether the call is a frame around operators rather than an operator.
bool is_frame(const Call& call);

}  // namespace baechi::kineto
