#include "placers/search/chain.h"

#include <oneapi/tbb/parallel_for.h>

#include "sim/processor_time.h"

namespace baechi::search {
namespace {

/// The energy by which feasible placements are compared, in ns.
double height(const Score& score) {
  return score.guide > 0.0 ? score.guide : static_cast<double>(score.value.count());
}

}  // namespace

bool ChainLimits::reached() const {
  if (stop != nullptr && stop->load(std::memory_order_relaxed)) return true;
  return until != std::chrono::steady_clock::time_point::max() &&
         std::chrono::steady_clock::now() >= until;
}

Chain::Chain(const SearchSpace& space, const Objective& objective, const Placement& start,
             std::uint64_t seed)
    : space_(space), evaluator_(objective.on(space.problem())), random_(seed) {
  restart_from(start);
  best_ = start;
  best_score_ = score_;
}

void Chain::restart_from(const Placement& placement) {
  placement_ = placement;
  at_ = UnitDevices(space_.units().size());
  for (const UnitId u : space_.units().units())
    at_[u] = placement.device[space_.units().members(u).front()];
  score_ = evaluator_->begin(placement_);
}

void Chain::run(std::size_t evaluations, Temperature temperature, const ChainLimits& limits) {
  const double cooling = std::pow(temperature.end / temperature.begin,
                                  1.0 / static_cast<double>(std::max<std::size_t>(evaluations, 1)));
  Temperature now = temperature;
  for (std::size_t i = 0; i < evaluations && !limits.reached(); ++i, now.begin *= cooling) {
    if (limits.until_feasible && best_score_.feasible()) return;
    const MoveEntry* move = propose(now.leaves > 0.0);
    ++evaluations_;
    if (move == nullptr || !try_changes(now) || !(score_ < best_score_)) continue;
    best_ = placement_;
    best_score_ = score_;
    improvements_.push_back({evaluations_, score_, move->name});
  }
}

/// The move to try next, in changes_: of several draws the one that the objective estimates to be
/// best. Estimates ignore memory, so one try in four is a single draw, as are all while the
/// placement is infeasible. `leaves`: the chain may move to an infeasible placement.
const MoveEntry* Chain::propose(bool leaves) {
  const std::size_t most = evaluator_->estimates();
  proposals_.resize(most);
  op_moves_.resize(most);
  if (most == 1 || !score_.feasible() || random_.below(4) == 0)
    return draw(changes_, op_moves_.front(), leaves);
  drawn_.clear();
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t n = drawn_.size();
    const MoveEntry* move = draw(proposals_[n], op_moves_[n], leaves);
    if (move != nullptr) drawn_.push_back(move);
  }
  if (drawn_.empty()) return nullptr;
  const std::size_t best = evaluator_->best_estimate(std::span(op_moves_).first(drawn_.size()));
  std::swap(changes_, proposals_[best]);
  return drawn_[best];
}

/// Nothing if the drawn move does not apply. `changes` are also listed by ops. A chain that never
/// leaves feasible placements draws a few times, until a change may fit.
const MoveEntry* Chain::draw(std::vector<Change>& changes, std::vector<OpMove>& ops, bool leaves) {
  const auto table = moves();
  const MoveEntry* move = nullptr;
  for (int left = leaves ? 1 : 5; left > 0; --left) {
    move = &table[random_.below(static_cast<std::uint32_t>(table.size()))];
    changes.clear();
    move->propose(space_, at_, random_, changes);
    ops.clear();
    for (const auto& [unit, to] : changes)
      for (const OpId v : space_.units().members(unit)) ops.push_back({v, to});
    if (left > 1 && evaluator_->may_fit(ops)) break;
  }
  return changes.empty() ? nullptr : move;
}

/// Whether the changes were accepted.
bool Chain::try_changes(const Temperature& now) {
  moved_.clear();
  apply();
  const Score next = evaluator_->attempt(placement_, moved_);
  if (!accepts(next, now)) {
    apply();
    return false;
  }
  evaluator_->keep();
  const bool leaves = score_.feasible() && !next.feasible();
  score_ = leaves ? evaluator_->attempt(placement_, {}) : next;  // of the whole step
  return true;
}

/// Applies changes_, which then hold the reverse changes.
void Chain::apply() {
  for (auto& [unit, to] : changes_) {
    for (const OpId v : space_.units().members(unit)) {
      placement_.device[v] = to;
      moved_.push_back(v);
    }
    std::swap(at_[unit], to);
  }
}

bool Chain::accepts(const Score& next, const Temperature& now) {
  if (next.deadlock != score_.deadlock) return !next.deadlock;
  const auto broken = [](const Score& s) { return s.misplaced + s.split_groups; };
  if (broken(next) != broken(score_)) return broken(next) < broken(score_);
  if (next.over > Bytes{} || score_.over > Bytes{}) return accepts_missing(next.over, now.leaves);
  const double worse = height(next) - height(score_);
  return worse <= 0.0 || random_.uniform() < std::exp(-worse / (now.begin * height(score_)));
}

/// The infeasible placement that lacks less memory is the better one, whatever its value. From
/// a feasible one the chain leaves seldom: the more units there are, the more tries the return
/// takes.
bool Chain::accepts_missing(Bytes over, double leaves) {
  constexpr double hottest = 0.3;  // relative to the mean change
  constexpr double units = 16.0;   // with so few units the full probability applies
  constexpr double memory = 0.98;  // decay of the mean, per try
  const double more = static_cast<double>((over - score_.over).count);
  if (more != 0.0)
    change_ = change_ == 0.0 ? std::abs(more) : memory * change_ + (1.0 - memory) * std::abs(more);
  double chance = more > 0.0 ? std::exp(-more / (hottest * change_)) : 1.0;
  if (score_.over == Bytes{})
    chance *= leaves * std::min(1.0, units / static_cast<double>(space_.movable().size()));
  return chance >= 1.0 || random_.uniform() < chance;
}

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t rounds = 16;

/// Some chains are hotter, to escape from local minima.
Temperature temperature_of(std::size_t round, std::size_t chain, double leaves) {
  constexpr std::array hottest{0.005, 0.05, 0.01, 0.5};
  const double first = hottest[chain % hottest.size()];
  const auto before = [&](std::size_t r) {
    return first * std::pow(0.01, static_cast<double>(r) / static_cast<double>(rounds));
  };
  return {.begin = before(round), .end = before(round + 1), .leaves = leaves};
}

}  // namespace

Annealing::Annealing(const SearchSpace& space, const Objective& objective,
                     std::span<const Placement> starts, std::size_t chains, std::uint64_t seed,
                     double leaves)
    : leaves_(leaves) {
  if (space.movable().empty()) return;
  for (std::size_t c = 0; c < chains; ++c)
    chains_.emplace_back(space, objective, starts[c % starts.size()], seed * chains + c);
}

void Annealing::run(std::size_t evaluations, const ChainLimits& limits, const Watcher& watcher) {
  if (chains_.empty()) return;
  const auto begin = Clock::now();
  for (std::size_t round = 0; round < rounds && !limits.reached(); ++round) {
    const std::size_t each = evaluations_of(round, evaluations, Clock::now() - begin, limits);
    oneapi::tbb::parallel_for(std::size_t{0}, chains_.size(), part_of_this_task([&](std::size_t c) {
                                chains_[c].run(each, temperature_of(round, c, leaves_), limits);
                              }));
    restart_worst();
    if (watcher.progress)
      watcher.progress(fmt::format("round {} of {}: best {}", round + 1, rounds,
                                   to_text(best().best_score().value)),
                       static_cast<double>(round + 1) / static_cast<double>(rounds));
  }
}

std::size_t Annealing::evaluations_of(std::size_t round, std::size_t all, Seconds used,
                                      const ChainLimits& limits) const {
  const std::size_t parts = chains_.size() * rounds;
  if (limits.until == Clock::time_point::max())
    return all * (round + 1) / parts - all * round / parts;
  if (round == 0) return 32;  // to measure how long they take
  const double rate = static_cast<double>(evaluations()) / used.count();
  const Seconds left = limits.until - Clock::now();
  const double each = rate * left.count() / static_cast<double>((rounds - round) * chains_.size());
  return static_cast<std::size_t>(std::max(each, 1.0));
}

const Chain& Annealing::best() const {
  return *std::ranges::min_element(chains_, std::less<>(), &Chain::best_score);
}

std::size_t Annealing::evaluations() const {
  std::size_t sum = 0;
  for (const Chain& chain : chains_) sum += chain.evaluations();
  return sum;
}

/// The worse half of the chains continues from the best placements of the better half.
void Annealing::restart_worst() {
  std::vector<Chain*> order;
  for (Chain& chain : chains_) order.push_back(&chain);
  std::ranges::stable_sort(order, std::less<>(), &Chain::best_score);
  const std::size_t ahead = (order.size() + 1) / 2;
  for (std::size_t i = ahead; i < order.size(); ++i)
    order[i]->restart_from(order[i - ahead]->best());
}

}  // namespace baechi::search
