#include <algorithm>
#include <array>
#include <functional>
#include <queue>

#include "sim/pipeline/schedule.h"

namespace baechi::pipeline {
namespace {

/// Priorities of a stage among ready passes.
struct Preference {
  std::int64_t thirds = 0;   ///< W waits if B or F arrives within this many thirds of W's time
  bool by_turns = false;     ///< F after B, if F is ready; else B always goes first
  bool front_first = false;  ///< if B of both chunks is ready, the outbound chunk's goes first
  std::size_t reserve = 1;   ///< activations that F of the outbound chunk leaves free
};

/// Builds the schedule by simulation: every free stage takes the next pass by `preference`.
class VeeMaker {
 public:
  VeeMaker(const Shape& shape, const Preference& preference)
      : p_(shape.stages),
        m_(shape.micro_batches),
        preference_(preference),
        times_(shape.times),
        schedule_(empty_schedule(shape, 2 * shape.stages)),
        forward_(schedule_.chunks),
        backward_(schedule_.chunks),
        weights_(schedule_.chunks, 0),
        kept_(p_, 0),
        free_(p_),
        last_(p_, PassKind::forward) {
    times_.resize(schedule_.chunks);
    for (std::size_t& most : schedule_.in_flight) most = std::min(2 * m_, 2 * p_);
  }

  /// The end of the last pass; nothing after a deadlock.
  std::optional<Duration> run() {
    std::size_t left = 3 * schedule_.chunks * m_;
    for (instants_.push({}); left > 0 && !instants_.empty();) {
      now_ = instants_.top();
      while (!instants_.empty() && instants_.top() == now_) instants_.pop();
      for (std::size_t s = 0; s < p_; ++s)
        if (free_[s] <= now_ && run_one(s)) --left;
    }
    if (left > 0) return std::nullopt;
    return std::ranges::max(free_);
  }
  Schedule schedule() && {
    add_updates(schedule_);
    return std::move(schedule_);
  }

 private:
  using Ends = std::vector<Duration>;  // [micro-batches so far], arrival at the next chunk

  bool run_one(std::size_t s) {
    const std::size_t back = 2 * p_ - 1 - s;
    const bool turn = preference_.by_turns && last_[s] == PassKind::backward;
    if (turn && run_forward(s, back)) return true;
    const std::array<std::size_t, 2> order{preference_.front_first ? s : back,
                                           preference_.front_first ? back : s};
    for (const std::size_t c : order)
      if (const auto ready = backward_ready(c); ready && *ready <= now_) {
        run(PassKind::backward, s, c, backward_[c], times_[c].backward, times_[c].sends_backward);
        return true;
      }
    if (!turn && run_forward(s, back)) return true;
    for (const std::size_t c : {back, s}) {
      if (weights_[c] == backward_[c].size()) continue;
      const auto soon = next_arrival(s);
      if (soon && 3 * (*soon - now_) < preference_.thirds * times_[c].weights) return false;
      run_weights(s, c);
      return true;
    }
    return false;
  }

  bool run_forward(std::size_t s, std::size_t back) {
    for (const std::size_t c : {back, s}) {
      const auto ready = forward_ready(c);
      if (!ready || *ready > now_ || kept_[s] + (c == s ? preference_.reserve : 0) >= 2 * p_)
        continue;
      run(PassKind::forward, s, c, forward_[c], times_[c].forward, times_[c].sends_forward);
      ++kept_[s];
      return true;
    }
    return false;
  }

  void run(PassKind kind, std::size_t s, std::size_t chunk, Ends& ends, Duration takes,
           Duration sends) {
    schedule_.passes[s].push_back(pass(kind, chunk, ends.size()));
    last_[s] = kind;
    free_[s] = now_ + takes;
    ends.push_back(free_[s] + sends);
    instants_.push(free_[s]);
    instants_.push(ends.back());
  }
  void run_weights(std::size_t s, std::size_t c) {
    schedule_.passes[s].push_back(pass(PassKind::weights, c, weights_[c]++));
    --kept_[s];
    free_[s] = now_ + times_[c].weights;
    instants_.push(free_[s]);
  }

  /// The earliest start of the next pass of the kind; nothing if not known yet.
  std::optional<Duration> forward_ready(std::size_t c) const {
    const std::size_t i = forward_[c].size();
    if (i == m_ || (c > 0 && i >= forward_[c - 1].size())) return std::nullopt;
    return c == 0 ? Duration{} : forward_[c - 1][i];
  }
  std::optional<Duration> backward_ready(std::size_t c) const {
    const std::size_t i = backward_[c].size();
    const bool first = c + 1 == schedule_.chunks;
    if (i == m_ || i >= forward_[c].size() || (!first && i >= backward_[c + 1].size()))
      return std::nullopt;
    const Duration own = forward_[c][i] - times_[c].sends_forward;
    return first ? own : std::max(own, backward_[c + 1][i]);
  }
  /// The next time at which a pass of the stage becomes ready.
  std::optional<Duration> next_arrival(std::size_t s) const {
    std::optional<Duration> next;
    for (const std::size_t c : {s, 2 * p_ - 1 - s}) {
      auto forward = forward_ready(c);
      if (kept_[s] >= 2 * p_) forward.reset();
      for (const auto& ready : {forward, backward_ready(c)})
        if (ready && *ready > now_) next = next ? std::min(*next, *ready) : *ready;
    }
    return next;
  }

  const std::size_t p_, m_;
  const Preference preference_;
  std::vector<PassTimes> times_;  // [chunks]
  Duration now_{};
  Schedule schedule_;
  std::vector<Ends> forward_, backward_;  // [chunks]
  std::vector<std::size_t> weights_;      // [chunks], W so far
  std::vector<std::size_t> kept_;         // [stages], activations of a chunk
  std::vector<Duration> free_;            // [stages]
  std::vector<PassKind> last_;            // [stages]: F or B
  std::priority_queue<Duration, std::vector<Duration>, std::greater<>> instants_;
};

/// The end of the last pass if every stage runs its passes in this order, and each takes `times`.
Duration replayed(const Schedule& schedule, const std::vector<PassTimes>& times) {
  constexpr Duration none{-1};
  using Arrivals = std::vector<std::vector<Duration>>;  // [chunks][micro-batches], at the reader
  Arrivals forward(schedule.chunks, std::vector<Duration>(schedule.micro_batches, none));
  Arrivals backward = forward;
  std::vector<Duration> free(schedule.passes.size());
  std::vector<std::size_t> next(free.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < free.size(); ++s) {
      for (; next[s] < schedule.passes[s].size(); ++next[s], moved = true) {
        const auto [kind, c, i] = schedule.passes[s][next[s]];
        Duration input{};  // from another stage: the stage's own order has the others
        if (kind == PassKind::forward && c > 0) input = forward[c - 1][i];
        if (kind == PassKind::backward && c + 1 < schedule.chunks) input = backward[c + 1][i];
        if (input == none) break;
        free[s] = std::max(free[s], input);
        if (kind == PassKind::forward)
          forward[c][i] = (free[s] += times[c].forward) + times[c].sends_forward;
        if (kind == PassKind::backward)
          backward[c][i] = (free[s] += times[c].backward) + times[c].sends_backward;
        if (kind == PassKind::weights) free[s] += times[c].weights;
      }
    }
  }
  return std::ranges::max(free);
}

}  // namespace

/// Two chunks on each stage: s (outbound) and 2p - 1 - s (return), so that the stage that begins a
/// micro-batch also ends it. In flight: 2p chunks of half a stage each, as on 1F1B's first stage.
/// The order is the shortest of 48: 24 preferences, simulated with the transfers' times and without
/// (short transfers must not turn the order round); ties: the first. Source: Qi et al., "Zero
/// Bubble Pipeline Parallelism", ICLR 2024, section 5, and "Pipeline Parallelism with Controllable
/// Memory", NeurIPS 2024. Differs: the preferences, where the paper searches among other
/// heuristics.
Schedule zb_v(const Shape& shape) {
  std::optional<Duration> least;
  Schedule best;
  Shape free = shape;
  for (PassTimes& t : free.times) t.sends_forward = t.sends_backward = {};
  for (const bool sends : {true, false}) {
    for (int n = 0; n < 24; ++n) {
      VeeMaker maker(sends ? shape : free,
                     {n / 8, n / 4 % 2 == 1, n / 2 % 2 == 1, n % 2 == 0 ? 1U : 0U});
      auto time = maker.run();
      if (!time) continue;
      Schedule made = std::move(maker).schedule();
      if (!sends && !shape.times.empty()) time = replayed(made, shape.times);
      if (least && *least <= *time) continue;
      least = time;
      best = std::move(made);
    }
  }
  return best;
}

}  // namespace baechi::pipeline
