/// The host's part of a step, cut into pieces that end where work is launched or awaited.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "traces/import/kineto/step.h"
#include "traces/import/kineto/surroundings.h"

namespace baechi::kineto {

/// What a thread does up to its next launch: the calls of the driver in it, in order. Without a GPU
/// a piece is an op.
struct Piece {
  std::vector<std::size_t> calls;  ///< of Recording::calls
  std::size_t thread = 0;
  Duration start{}, end{};     ///< of the calls, without the pause before them
  std::size_t outermost = 0;   ///< the outermost call of one op around them, or the call itself
  std::string op{}, module{};  ///< "conv2d"; "VGG_0.Sequential_0.Conv2d_0", "" if not recorded
  Phase phase = Phase::forward;
};

/// Work by the correlation of its launch.
using Launched = std::unordered_map<std::int64_t, std::vector<std::size_t>>;
Launched by_correlation(const Recording& recording);

/// Whether a call of the driver lasts until work of the GPU has ended.
bool waits(const Call& call);
bool records_event(const Call& call);
bool awaits_event(const Call& call);

/// The pieces of `window` by their start, and those before it: what they launched may run in it.
/// Without a GPU only those of the window.
std::vector<Piece> host_pieces(const Recording& recording, const std::vector<Surroundings>& around,
                               const Window& window, const Launched& launched, Level level);

}  // namespace baechi::kineto
