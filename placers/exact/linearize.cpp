#include "placers/exact/linearize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace baechi {
namespace {

/// A topological order: of the ready blocks the one that became ready last. Those that become ready
/// together, and those at the start, come in the order of their ids or, `reversed`, against it.
std::vector<BlockId> depth_first(const Blocks& blocks, bool reversed) {
  std::vector<BlockId> order, stack;
  IdVector<BlockId, std::size_t> missing(blocks.size());
  const auto push = [&](auto first) {  // the last of what was pushed is the next to go
    const auto from = stack.begin() + first;
    std::sort(from, stack.end());
    if (!reversed) std::reverse(from, stack.end());
  };
  for (const BlockId b : blocks.blocks()) {
    missing[b] = blocks.before(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  push(0);
  while (!stack.empty()) {
    const BlockId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto first = std::ssize(stack);
    for (const BlockId next : blocks.after(b))
      if (--missing[next] == 0) stack.push_back(next);
    push(first);
  }
  return order;
}

/// The same from the end, turned round.
std::vector<BlockId> depth_last(const Blocks& blocks, bool reversed) {
  std::vector<BlockId> order, stack;
  IdVector<BlockId, std::size_t> missing(blocks.size());
  for (const BlockId b : blocks.blocks()) {
    missing[b] = blocks.after(b).size();
    if (missing[b] == 0) stack.push_back(b);
  }
  if (reversed) std::ranges::reverse(stack);
  while (!stack.empty()) {
    const BlockId b = stack.back();
    stack.pop_back();
    order.push_back(b);
    const auto before = blocks.before(b);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const BlockId next = before[reversed ? before.size() - 1 - i : i];
      if (--missing[next] == 0) stack.push_back(next);
    }
  }
  std::ranges::reverse(order);
  return order;
}

}  // namespace

Plan in_ops(const Pipeline& pipeline, const Blocks& blocks, const OpGraph& graph) {
  Plan plan{.load = pipeline.load};
  for (const OpId v : graph.ops()) plan.device.push_back(pipeline.device[blocks.of(v)]);
  return plan;
}

std::optional<Plan> best_linear_plan(const Problem& problem, const ColocationUnits& units,
                                     const std::vector<DeviceSort>& sorts, Duration bound) {
  std::optional<Plan> best;
  std::size_t tried = 0;  // blocks of the first round; as many again are the same
  for (const auto leaves : {BlockRules::Leaves::all, BlockRules::Leaves::safe}) {
    const Blocks blocks(problem, units, sorts, {.leaves = leaves});
    if (leaves == BlockRules::Leaves::safe && blocks.size() == tried) break;
    tried = blocks.size();
    for (const bool reversed : {false, true}) {
      for (const auto& order : {depth_first(blocks, reversed), depth_last(blocks, reversed)}) {
        const auto found =
            best_pipeline(blocks, sorts, Ideals::chain(order), best ? best->load : bound);
        if (found) best = in_ops(*found, blocks, problem.graph);
      }
    }
  }
  return best;
}

Duration load_bound(const Blocks& blocks, const std::vector<DeviceSort>& sorts) {
  std::vector<double> rate(sorts.size(), 0.0);
  double work = 0.0;
  Duration longest{};
  for (const BlockId b : blocks.blocks()) {
    Duration fastest = cannot_run;
    for (std::size_t s = 0; s < sorts.size(); ++s)
      fastest = std::min(fastest, blocks.time(b, s).value_or(cannot_run));
    work += static_cast<double>(fastest.count());
    longest = std::max(longest, fastest);
    for (std::size_t s = 0; s < sorts.size(); ++s) {
      const auto time = blocks.time(b, s);
      if (time && fastest > Duration::zero())
        rate[s] = std::max(
            rate[s], static_cast<double>(fastest.count()) / static_cast<double>(time->count()));
    }
  }
  double rates = 0.0;
  for (std::size_t s = 0; s < sorts.size(); ++s)
    rates += rate[s] * static_cast<double>(sorts[s].devices.size());
  if (rates <= 0.0) return Duration{};
  // Reduced by more than the sums' error: a bound must never exceed the truth.
  const auto shared = static_cast<std::int64_t>(std::ceil(work / rates * (1.0 - 1e-9)));
  return std::max(longest, Duration{shared});
}

std::string why_no_plan(const Problem& problem, const ColocationUnits& units,
                        const std::vector<DeviceSort>& sorts) {
  Bytes most{};
  for (const DeviceSort& sort : sorts) most = std::max(most, sort.memory);
  for (const UnitId u : units.units()) {
    if (units.needs(u).persistent > most)
      return fmt::format("{} has weights of {}, the largest device has {}",
                         units.label(u, problem.graph), to_text(units.needs(u).persistent),
                         to_text(most));
  }
  return "the weights fit in no split";
}

}  // namespace baechi
