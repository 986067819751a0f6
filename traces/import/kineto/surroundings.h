/// What stands around each call of a recording, found in one pass: calls may nest deeply.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/kineto/recording.h"

namespace baechi::kineto {

inline constexpr std::size_t none = ~std::size_t{0};

struct Surroundings {
  std::size_t op = none;             ///< the outermost op; without one, the call itself
  std::size_t scope = none;          ///< the innermost record_function of the user's, or none
  std::size_t communication = none;  ///< the innermost call that states a collective, or none
  Phase phase = Phase::forward;
  bool in_op = false;  ///< whether the call is an op, or is in one
};

/// [recording.calls]; each call is among its own surroundings.
std::vector<Surroundings> surroundings_of(const Recording& recording);

/// The user's record_functions around call `i`, outermost first: "encoder.layer1"; of the innermost
/// 64 at most.
std::string scopes(const Recording& recording, const std::vector<Surroundings>& around,
                   std::size_t i);

/// A frame around operators, which is none itself.
bool is_frame(const Call& call);

}  // namespace baechi::kineto
