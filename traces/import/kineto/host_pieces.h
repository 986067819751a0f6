/// The calls that enclose each call of a recording, and the host's timeline of a step, cut into
/// pieces that end at a launch or a wait.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/kineto/recording.h"
#include "traces/import/kineto/step.h"

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

/// The time of a thread up to its next launch or wait. Without a GPU a piece is an op.
struct Piece {
  std::vector<std::size_t> calls;  ///< indices of Recording::calls: its driver calls, in order
  std::size_t thread = 0;
  Duration start{}, end{};     ///< of the calls, without the gap before them
  std::size_t outermost = 0;   ///< the outermost op that contains the calls, or the call itself
  std::string op{}, module{};  ///< "conv2d"; "VGG_0.Conv2d_0", "" if not recorded
  Phase phase = Phase::forward;
};

/// Indices of Recording::work by the correlation of their launch.
using Launched = std::unordered_map<std::int64_t, std::vector<std::size_t>>;
Launched by_correlation(const Recording& recording);

/// Whether the driver call blocks until GPU work has ended; records an event; waits for one.
bool waits(const Call& call);
bool records_event(const Call& call);
bool awaits_event(const Call& call);

/// The pieces that begin before the end of `window`, by start: work launched before the window may
/// run in it. Without a GPU, the pieces of the window only.
std::vector<Piece> host_pieces(const Recording& recording, const std::vector<CallContext>& contexts,
                               const Window& window, const Launched& launched, Level level);

}  // namespace baechi::kineto
