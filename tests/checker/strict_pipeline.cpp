#include "tests/checker/strict_pipeline.h"

#include <algorithm>
#include <set>

namespace baechi::testing {
namespace {

using pipeline::Pass;
using pipeline::PassKind;

class Strict {
 public:
  explicit Strict(const StrictPipeline& p)
      : p_(p),
        next_(p.passes.size(), 0),
        free_(p.passes.size()),
        host_(p.passes.size()),
        lane_(p.passes.size()) {}

  std::map<std::string, Duration> run() {
    // Passes wait for passes only, so each is timed once its inputs are; then reductions.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < p_.passes.size(); ++s)
        while (next_[s] < p_.passes[s].size() && step(s)) moved = true;
    }
    return ends_;
  }

 private:
  static std::string name(char kind, std::size_t chunk, std::size_t micro_batch) {
    return kind + std::to_string(chunk) + "#" + std::to_string(micro_batch);
  }
  std::optional<Duration> end_of(char kind, std::size_t chunk, std::size_t micro_batch) const {
    const auto it = ends_.find(name(kind, chunk, micro_batch));
    return it == ends_.end() ? std::nullopt : std::optional(it->second);
  }

  /// Runs the next pass of stage `s` if its inputs have arrived.
  bool step(std::size_t s) {
    const Pass pass = p_.passes[s][next_[s]];
    if (pass.kind == PassKind::update) return update(s);
    const auto ready = inputs(s, pass);
    if (!ready) return false;
    ++next_[s];
    const auto& chunk = p_.chunks[pass.chunk];
    free_[s] = std::max(free_[s], *ready);
    if (pass.kind == PassKind::forward) run_op(s, 'f', pass, chunk.forward);
    if (pass.kind == PassKind::recompute) run_op(s, 'r', pass, chunk.forward);
    if (pass.kind == PassKind::backward) run_op(s, 'b', pass, chunk.backward);
    const bool weights =
        pass.kind == PassKind::weights ||
        (pass.kind == PassKind::backward && !p_.split && chunk.weights > Duration{});
    if (weights) run_op(s, 'w', pass, chunk.weights);
    if (weights || (pass.kind == PassKind::backward && chunk.weights == Duration{}))
      made_[{s, pass.chunk}] = free_[s];
    return true;
  }

  std::optional<Duration> inputs(std::size_t s, const Pass& pass) const {
    const std::size_t c = pass.chunk, i = pass.micro_batch;
    const auto sent = [&](char kind, std::size_t from, Duration takes) {
      const auto end = end_of(kind, from, i);
      const bool here = std::ranges::find(p_.passes[s], from, [&](const Pass& p) {
                          return p.micro_batch == i ? p.chunk : p_.chunks.size();
                        }) != p_.passes[s].end();
      return end ? std::optional(*end + (here ? Duration{} : takes)) : std::nullopt;
    };
    if (pass.kind == PassKind::weights) return end_of('b', c, i);
    if (pass.kind == PassKind::recompute) return end_of('f', c, i);
    if (pass.kind == PassKind::forward) {
      const auto there = c == 0 ? Duration{} : sent('f', c - 1, p_.chunks[c - 1].sends_forward);
      if (p_.ahead == 0 || c + 1 == p_.chunks.size() || i < p_.ahead) return there;
      const auto done = end_of('f', c + 1, i - p_.ahead);
      return there && done ? std::optional(std::max(*there, *done)) : std::nullopt;
    }
    const auto own = end_of('f', c, i);
    if (!own || c + 1 == p_.chunks.size()) return own;
    const auto behind = sent('b', c + 1, p_.chunks[c + 1].sends_backward);
    return behind ? std::optional(std::max(*own, *behind)) : std::nullopt;
  }

  void run_op(std::size_t s, char kind, const Pass& pass, Duration takes) {
    host_[s] += p_.launch;
    free_[s] = std::max(free_[s], host_[s]) + takes;
    ends_[name(kind, pass.chunk, pass.micro_batch)] = free_[s];
  }

  /// Consecutive updates of a stage: their reductions, then their ops.
  bool update(std::size_t s) {
    std::map<std::size_t, Pass> together;  // by chunk
    std::size_t k = next_[s];
    for (; k < p_.passes[s].size() && p_.passes[s][k].kind == PassKind::update &&
           !together.contains(p_.passes[s][k].chunk);
         ++k)
      together.emplace(p_.passes[s][k].chunk, p_.passes[s][k]);
    Duration ready = free_[s];
    if (p_.sums)
      for (auto it = together.rbegin(); it != together.rend(); ++it) {
        lane_[s] = std::max(lane_[s], made_.at({s, it->first})) + p_.chunks[it->first].sum;
        ready = std::max(ready, lane_[s]);
      }
    if (p_.pairs) {
      const auto sums = sums_of_pair(s);
      if (!sums) return false;
      // An update waits for the reduction of its own chunk; ready ones run first, ties by op.
      std::vector<std::pair<Duration, std::size_t>> order;
      for (const auto& [chunk, pass] : together)
        order.emplace_back(std::max(free_[s], sums->at(chunk)), chunk);
      return run_updates(s, k, together, order);
    }
    std::vector<std::pair<Duration, std::size_t>> order;
    for (const auto& [chunk, pass] : together) order.emplace_back(ready, chunk);
    return run_updates(s, k, together, order);
  }

  bool run_updates(std::size_t s, std::size_t until, const std::map<std::size_t, Pass>& together,
                   std::vector<std::pair<Duration, std::size_t>> order) {
    for (auto& [ready, chunk] : order) ready = std::max(ready, host_[s] += p_.launch);
    std::ranges::sort(order);
    for (const auto& [ready, chunk] : order) {
      free_[s] = std::max(free_[s], ready) + p_.chunks[chunk].update;
      ends_[name('u', chunk, together.at(chunk).micro_batch)] = free_[s];
    }
    next_[s] = until;
    return true;
  }

  /// The ends of the two reductions of a stage and its opposite, which are serial: first the one
  /// whose gradients are complete first; ties: the first chunk. Nothing before both stages have run
  /// their passes.
  std::optional<std::map<std::size_t, Duration>> sums_of_pair(std::size_t s) const {
    const std::size_t other = p_.passes.size() - 1 - s;
    std::vector<std::pair<Duration, std::size_t>> arrivals;
    for (const std::size_t chunk : p_.homes[s]) {
      Duration there{};
      for (const std::size_t stage : {s, other}) {
        const Pass* at =
            next_[stage] < p_.passes[stage].size() ? &p_.passes[stage][next_[stage]] : nullptr;
        if (at != nullptr && at->kind != PassKind::update) return std::nullopt;
        there = std::max(there, made_.at({stage, chunk}));
      }
      arrivals.emplace_back(there, chunk);
    }
    std::ranges::sort(arrivals);
    std::map<std::size_t, Duration> ends;
    Duration lane{};
    for (const auto& [there, chunk] : arrivals) {
      lane = std::max(lane, there) + p_.chunks[chunk].sum;
      ends[chunk] = lane;
    }
    return ends;
  }

  const StrictPipeline& p_;
  std::vector<std::size_t> next_;  // [stages]
  std::vector<Duration> free_, host_, lane_;
  std::map<std::pair<std::size_t, std::size_t>, Duration> made_;  // stage, chunk: last gradient
  std::map<std::string, Duration> ends_;
};

}  // namespace

std::map<std::string, Duration> strict_ends(const StrictPipeline& pipeline) {
  return Strict(pipeline).run();
}

}  // namespace baechi::testing
