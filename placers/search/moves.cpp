#include "placers/search/move.h"

namespace baechi::search {

void move_unit(const SearchSpace& space, const UnitDevices& at, Random& random,
               std::vector<Change>& changes) {
  const UnitId u = draw_movable(space, random);
  changes.push_back({u, draw_device(space, u, at[u], random)});
}

void move_join(const SearchSpace& space, const UnitDevices& at, Random& random,
               std::vector<Change>& changes) {
  const UnitId u = draw_movable(space, random);
  changes.push_back({u, draw_neighbouring_device(space, at, u, random)});
}

void move_swap(const SearchSpace& space, const UnitDevices& at, Random& random,
               std::vector<Change>& changes) {
  const UnitId a = draw_movable(space, random), b = draw_movable(space, random);
  if (at[a] == at[b] || !space.can_run(a, at[b]) || !space.can_run(b, at[a])) return;
  changes.push_back({a, at[b]});
  changes.push_back({b, at[a]});
}

void move_segment(const SearchSpace& space, const UnitDevices& at, Random& random,
                  std::vector<Change>& changes) {
  const auto order = space.movable();
  const std::size_t first = random.below(static_cast<std::uint32_t>(order.size()));
  const DeviceId from = at[order[first]];
  const DeviceId to = draw_device(space, order[first], from, random);
  std::size_t left = draw_size(order.size(), random);
  for (std::size_t i = first; i < order.size() && left > 0; ++i, --left)
    if (at[order[i]] == from && space.can_run(order[i], to)) changes.push_back({order[i], to});
}

/// From a unit on, forwards or backwards in the order, finds where the device changes; from there
/// moves as many units as drawn, while they are on the next device, to the first device.
void move_cut(const SearchSpace& space, const UnitDevices& at, Random& random,
              std::vector<Change>& changes) {
  const auto order = space.movable();
  const bool forwards = random.below(2) == 0;
  std::size_t i = random.below(static_cast<std::uint32_t>(order.size()));
  const DeviceId home = at[order[i]];
  const auto step = [&] {
    if (forwards ? i + 1 == order.size() : i == 0) return false;
    i = forwards ? i + 1 : i - 1;
    return true;
  };
  while (at[order[i]] == home)
    if (!step()) return;
  const DeviceId other = at[order[i]];
  std::size_t left = draw_size(order.size(), random);
  do {
    if (at[order[i]] != other || !space.can_run(order[i], home)) return;
    changes.push_back({order[i], home});
  } while (--left > 0 && step());
}

/// Grows the cluster breadth first from a unit, within its device.
void move_cluster(const SearchSpace& space, const UnitDevices& at, Random& random,
                  std::vector<Change>& changes) {
  constexpr std::size_t most = 64;
  const UnitId first = draw_movable(space, random);
  const DeviceId to = draw_neighbouring_device(space, at, first, random);
  const std::size_t size = draw_size(std::min(most, space.movable().size()), random);
  changes.push_back({first, to});
  const auto taken = [&](UnitId u) {
    return std::ranges::find(changes, u, &Change::unit) != changes.end();
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (const UnitId u : space.neighbours(changes[i].unit)) {
      if (changes.size() >= size) return;
      if (at[u] == at[first] && space.can_run(u, to) && !taken(u)) changes.push_back({u, to});
    }
  }
}

SearchSpace::SearchSpace(const Problem& problem) : problem_(problem), units_(problem.graph) {
  find_neighbours();
  find_able();
  for (const UnitId u : units_.units())
    if (able(u).size() > 1) movable_.push_back(u);
}

bool SearchSpace::can_run(UnitId u, DeviceId d) const {
  return std::ranges::binary_search(able(u), d);
}

void SearchSpace::find_neighbours() {
  const OpGraph& graph = problem_.graph;
  begin_.push_back(0);
  for (const UnitId u : units_.units()) {
    std::vector<UnitId> found;
    for (const OpId v : units_.members(u)) {
      for (const OpId before : graph.predecessors(v)) found.push_back(units_.of(before));
      for (const EdgeId e : graph.out_edges(v)) found.push_back(units_.of(graph.edge(e).dst));
    }
    std::ranges::sort(found);
    const auto repeated = std::ranges::unique(found);
    found.erase(repeated.begin(), repeated.end());
    std::erase(found, u);
    neighbours_.insert(neighbours_.end(), found.begin(), found.end());
    begin_.push_back(neighbours_.size());
  }
}

void SearchSpace::find_able() {
  able_of_ = IdVector<UnitId, std::uint32_t>(units_.size());
  std::vector<DeviceId> able;
  for (const UnitId u : units_.units()) {
    able.clear();
    for (const DeviceId d : problem_.cluster.devices()) {
      const auto runs = [&](OpId v) { return problem_.costs.compute(v, d) != cannot_run; };
      if (std::ranges::all_of(units_.members(u), runs)) able.push_back(d);
    }
    const auto known = std::ranges::find(able_, able);
    able_of_[u] = static_cast<std::uint32_t>(known - able_.begin());
    if (known == able_.end()) able_.push_back(able);
  }
}

Propose move_unit, move_join, move_swap, move_cut, move_segment, move_cluster;

std::span<const MoveEntry> moves() {
  static constexpr MoveEntry table[] = {
      {"unit", "an op or group goes to any device", move_unit},
      {"join", "an op or group goes to the device of a neighbour", move_join},
      {"swap", "two ops or groups swap devices", move_swap},
      {"cut", "a cut in the order of ops, where the device changes, moves forwards or backwards",
       move_cut},
      {"segment", "in a segment of the order, the ops of one device go to another", move_segment},
      {"cluster", "connected ops of one device go to the device of their neighbours", move_cluster},
  };
  return table;
}

UnitId draw_movable(const SearchSpace& space, Random& random) {
  return space.movable()[random.below(static_cast<std::uint32_t>(space.movable().size()))];
}

DeviceId draw_device(const SearchSpace& space, UnitId u, DeviceId not_this, Random& random) {
  const auto able = space.able(u);
  const auto own = std::ranges::find(able, not_this);
  const bool among = own != able.end();
  auto i = random.below(static_cast<std::uint32_t>(able.size() - (among ? 1 : 0)));
  if (among && i >= own - able.begin()) ++i;
  return able[i];
}

std::size_t draw_size(std::size_t most, Random& random) {
  const auto powers = static_cast<std::uint32_t>(std::bit_width(most));  // most >= 2^(powers - 1)
  const std::size_t least = std::size_t{1} << random.below(powers);
  const std::size_t end = std::min(2 * least, most + 1);
  return least + random.below(static_cast<std::uint32_t>(end - least));
}

DeviceId draw_neighbouring_device(const SearchSpace& space, const UnitDevices& at, UnitId u,
                                  Random& random) {
  const auto suits = [&](UnitId n) { return at[n] != at[u] && space.can_run(u, at[n]); };
  const auto neighbours = space.neighbours(u);
  const auto count = static_cast<std::uint32_t>(std::ranges::count_if(neighbours, suits));
  if (count == 0) return draw_device(space, u, at[u], random);
  std::uint32_t wanted = random.below(count);
  for (const UnitId n : neighbours)
    if (suits(n) && wanted-- == 0) return at[n];
  return at[u];  // unreachable
}

}  // namespace baechi::search
