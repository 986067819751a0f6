#include <algorithm>
#include <deque>

#include "sim/error.h"
#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {
namespace {

/// Builds one stage's passes. Micro-batches of direction 0 enter at the first stage, those of
/// direction 1 at the last; `near` is the direction that enters at the nearer end, `far` the other.
class DualStage {
 public:
  DualStage(std::size_t stage, std::size_t stages, std::size_t half, std::vector<Pass>& passes)
      : half_(half),
        chunk_{stage, stages - 1 - stage},
        near_(2 * stage < stages ? 0 : 1),
        passes_(passes) {}

  void forward(bool far) {
    const std::size_t d = direction(far);
    passes_.push_back(pass(PassKind::forward, chunk_[d], d * half_ + forward_[d]++));
  }
  void backward(bool far, bool put_off = false) {
    const std::size_t d = direction(far);
    const std::size_t i = d * half_ + backward_[d]++;
    passes_.push_back(pass(PassKind::backward, chunk_[d], i));
    put_off_.push_back(pass(PassKind::weights, chunk_[d], i));
    if (!put_off) {
      passes_.push_back(put_off_.back());
      put_off_.pop_back();
    }
  }
  void weights() {
    passes_.push_back(put_off_.front());
    put_off_.pop_front();
  }

 private:
  std::size_t direction(bool far) const { return far ? 1 - near_ : near_; }

  std::size_t half_;  // micro-batches of direction 0
  std::array<std::size_t, 2> chunk_;
  std::size_t near_;
  std::array<std::size_t, 2> forward_{}, backward_{};  // run so far, by direction
  std::deque<Pass> put_off_;
  std::vector<Pass>& passes_;
};

}  // namespace

/// Half of the micro-batches go through the stages from the first to the last, the other half from
/// the last to the first: a stage runs chunk s of the former, p - 1 - s of the latter, and holds
/// the weights of both. In flight: p + 1. Bubble: (p/2 - 1)(F + B - W).
/// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1, and the code of
/// DualPipe, whose eight steps are below. Differs: F and B of a pair run in sequence, where the
/// original overlaps the computation of one with the communication of the other.
/// Throws InputError unless p is even, and m is even and at least 2p.
Schedule dualpipe(const Shape& shape) {
  const std::size_t p = shape.stages, m = shape.micro_batches;
  if (p % 2 != 0 || m % 2 != 0 || m < 2 * p)
    throw InputError(fmt::format(
        "dualpipe needs an even number of stages and of micro-batches, and two micro-batches or "
        "more for each stage, not {} stages and {} micro-batches",
        p, m));
  Schedule schedule = empty_schedule(shape, p);
  for (std::size_t s = 0; s < p; ++s) {
    schedule.in_flight[s] = p + 1;
    DualStage stage(s, p, m / 2, schedule.passes[s]);
    const std::size_t from_end = std::min(s, p - 1 - s), to_middle = p / 2 - 1 - from_end;
    constexpr bool near = false, far = true, put_off = true;
    for (std::size_t i = 0; i < 2 * to_middle; ++i) stage.forward(near);
    for (std::size_t i = 0; i <= from_end; ++i) {
      stage.forward(near);
      stage.forward(far);
    }
    for (std::size_t i = 0; i < to_middle; ++i) {
      stage.backward(far, put_off);
      stage.weights();
      stage.forward(far);
    }
    for (std::size_t i = 0; i < m / 2 - p + from_end + 1; ++i) {
      stage.forward(near);
      stage.backward(far);
      stage.forward(far);
      stage.backward(near);
    }
    for (std::size_t i = 0; i < to_middle; ++i) {
      stage.backward(far);
      stage.forward(far);
      stage.backward(near);
    }
    // The later half of the last 2 (from_end + 1) backward passes delays W.
    for (std::size_t k = 0; k < 2 * (from_end + 1); ++k)
      stage.backward(k % 2 == 0, k > from_end ? put_off : false);
    for (std::size_t i = 0; i < to_middle; ++i) {
      stage.weights();
      stage.backward(near, put_off);
    }
    for (std::size_t i = 0; i <= from_end; ++i) stage.weights();
  }
  add_updates(schedule);
  return schedule;
}

}  // namespace baechi::pipeline
