/// A made-up GPU, with numbers in the range that is expected of real ones. Two programs have them:
/// the virtual clock, which runs plans by the predictor's rules, and the tests' stand-in for CUDA,
/// which knows CUDA's rules and none of ours.
#pragma once
#include <cstdint>

namespace baechi::validate::made_up_gpu {

/// What passes between tasks, by how they are submitted, ns.
struct Gaps {
  std::int64_t same;    ///< between tasks of a queue
  std::int64_t cross;   ///< between tasks of two queues
  std::int64_t submit;  ///< of the host: for a graph, or for a task of a stream
};
inline constexpr Gaps graph{1180, 1650, 9000}, stream{1720, 3100, 2400};

/// What a kernel or a copy takes.
struct Length {
  std::int64_t fixed_ns;
  double per_ns;  ///< FLOP or bytes
  constexpr std::int64_t of(double amount) const {
    return fixed_ns + static_cast<std::int64_t>(amount / per_ns);
  }
};
inline constexpr Length gemm{5200, 95'000}, ew{2800, 760}, host_copy{4200, 52};
inline constexpr double link_bytes_per_ns = 180;

inline constexpr int multiprocessors = 132;
inline constexpr int timer_tick_ns = 32;

}  // namespace baechi::validate::made_up_gpu
