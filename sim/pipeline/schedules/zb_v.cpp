#include <algorithm>

#include "sim/pipeline/schedules.h"

namespace baechi::pipeline {
namespace {

/// Gives every stage one pass per tick, as if all passes were equally long.
class VeeMaker {
 public:
  explicit VeeMaker(const Shape& shape)
      : p_(shape.stages),
        m_(shape.micro_batches),
        schedule_(empty_schedule(shape, 2 * shape.stages)),
        forward_(schedule_.chunks),
        backward_(schedule_.chunks),
        weights_(schedule_.chunks, 0),
        kept_(p_, 0) {}

  Schedule make() {
    for (std::size_t& most : schedule_.in_flight) most = std::min(2 * m_, 2 * p_);
    for (std::size_t left = 3 * schedule_.chunks * m_; left > 0; ++now_)
      for (std::size_t s = 0; s < p_; ++s) left -= run_one(s) ? 1U : 0U;
    add_updates(schedule_);
    return std::move(schedule_);
  }

 private:
  /// B before F before W, of either kind the chunk on the way back first.
  bool run_one(std::size_t s) {
    const std::size_t back = 2 * p_ - 1 - s;
    for (const std::size_t c : {back, s})
      if (backward_is_ready(c)) return run(PassKind::backward, s, c, backward_[c]);
    for (const std::size_t c : {back, s})
      if (forward_is_ready(c) && kept_[s] + (c == s ? 2 : 1) <= 2 * p_)
        return run(PassKind::forward, s, c, forward_[c]);
    for (const std::size_t c : {back, s}) {
      if (weights_[c] == done_before_now(backward_[c])) continue;
      schedule_.passes[s].push_back(pass(PassKind::weights, c, weights_[c]++));
      --kept_[s];
      return true;
    }
    return false;
  }

  using Ticks = std::vector<std::size_t>;  // [micro-batches so far], when each pass was run

  bool run(PassKind kind, std::size_t s, std::size_t chunk, Ticks& ticks) {
    schedule_.passes[s].push_back(pass(kind, chunk, ticks.size()));
    ticks.push_back(now_);
    if (kind == PassKind::forward) ++kept_[s];
    return true;
  }
  std::size_t done_before_now(const Ticks& ticks) const {
    return ticks.size() - (!ticks.empty() && ticks.back() == now_ ? 1 : 0);
  }
  bool forward_is_ready(std::size_t c) const {
    const std::size_t i = forward_[c].size();
    return i < m_ && (c == 0 || i < done_before_now(forward_[c - 1]));
  }
  bool backward_is_ready(std::size_t c) const {
    const std::size_t i = backward_[c].size();
    return i < done_before_now(forward_[c]) &&
           (c + 1 == schedule_.chunks || i < done_before_now(backward_[c + 1]));
  }

  const std::size_t p_, m_;
  std::size_t now_ = 0;
  Schedule schedule_;
  std::vector<Ticks> forward_, backward_;  // [chunks]
  std::vector<std::size_t> weights_;       // [chunks], W so far
  std::vector<std::size_t> kept_;          // [stages], activations of a chunk
};

}  // namespace

/// Two chunks on each stage: s on the way there, 2p - 1 - s on the way back, so that the stage that
/// begins a micro-batch also ends it. In flight: 2p chunks, half a stage each, as 1F1B's first
/// stage keeps. If F, B and W are equally long, the run takes at most two passes more than filling
/// and work for p <= 7 and m >= 2p, and none for p = 2 and 4.
/// Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 5. Differs: the order
/// is found greedily for passes of one length, where the paper searches with measured lengths.
Schedule zb_v(const Shape& shape) {
  return VeeMaker(shape).make();
}

}  // namespace baechi::pipeline
