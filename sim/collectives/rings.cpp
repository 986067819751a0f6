#include <numeric>

#include "sim/collectives/collective_models.h"

namespace baechi {
namespace {

/// Packs Hamiltonian paths (or cycles, if `closed`) of the devices onto wires.
class Packing {
 public:
  Packing(const Node& node, std::span<const std::size_t> devices, bool closed)
      : n_(devices.size()), closed_(closed), wires_(n_ * n_), used_(n_) {
    for (std::size_t a = 0; a < n_; ++a)
      for (std::size_t b = 0; b < n_; ++b)
        if (a != b) wires_[a * n_ + b] = node.wires_between(devices[a], devices[b]);
  }

  /// The largest number of disjoint paths.
  std::int64_t most() {
    for (std::int64_t wanted = upper_bound(); wanted > 0; --wanted) {
      steps_ = 0;
      if (pack(wanted)) return wanted;
    }
    return 0;
  }

 private:
  static constexpr std::int64_t most_steps = 1'000'000;

  /// Cycles: half of the wires of the device with the fewest wires. Paths: all of them.
  std::int64_t upper_bound() const {
    std::int64_t least = std::int64_t{1} << 32U;
    for (std::size_t a = 0; a < n_; ++a)
      least = std::min(least,
                       std::accumulate(wires_.begin() + static_cast<std::ptrdiff_t>(a * n_),
                                       wires_.begin() + static_cast<std::ptrdiff_t>((a + 1) * n_),
                                       std::int64_t{0}));
    return closed_ ? least / 2 : least;
  }

  bool pack(std::int64_t wanted) {
    if (wanted == 0) return true;
    for (std::size_t first = 0; first < (closed_ ? 1 : n_); ++first) {
      used_[first] = true;
      const bool found = extend(first, first, 1, wanted);
      used_[first] = false;
      if (found) return true;
    }
    return false;
  }

  /// Depth-first search from `at`, the last of the path's `length` devices.
  bool extend(std::size_t first, std::size_t at, std::size_t length, std::int64_t wanted) {
    if (++steps_ > most_steps) return false;
    if (length == n_) return close(first, at, wanted);
    for (std::size_t next = 0; next < n_; ++next) {
      if (used_[next] || wires(at, next) == 0) continue;
      take(at, next, 1);
      used_[next] = true;
      const bool found = extend(first, next, length + 1, wanted);
      used_[next] = false;
      if (found) return true;
      take(at, next, -1);
    }
    return false;
  }

  /// The path is complete: the other paths must fit on the remaining wires.
  bool close(std::size_t first, std::size_t last, std::int64_t wanted) {
    if (closed_ && wires(last, first) == 0) return false;
    if (closed_) take(last, first, 1);
    std::vector<char> path(n_, 0);
    path.swap(used_);
    const bool found = pack(wanted - 1);
    path.swap(used_);
    if (closed_ && !found) take(last, first, -1);
    return found;
  }

  std::int64_t wires(std::size_t a, std::size_t b) const { return wires_[a * n_ + b]; }
  void take(std::size_t a, std::size_t b, std::int64_t count) {
    wires_[a * n_ + b] -= count;
    wires_[b * n_ + a] -= count;
  }

  std::size_t n_;
  bool closed_;
  std::vector<std::int64_t> wires_;  // [n, n], remaining
  std::vector<char> used_;           // [n], devices on the current path
  std::int64_t steps_ = 0;
};

}  // namespace

Bandwidth Rings::bus(std::int64_t n, Bandwidth wire) const {
  if (rings > 0) return {static_cast<double>(rings) * wire.bytes_per_second};
  const double algorithm = 0.5 * static_cast<double>(chains) * wire.bytes_per_second;
  return {algorithm * 2.0 * static_cast<double>(n - 1) / static_cast<double>(n)};
}

Rings rings_of(const Node& node, std::span<const std::size_t> devices) {
  if (devices.size() < 2) return {};
  if (devices.size() == 2) return {.rings = node.wires_between(devices[0], devices[1])};
  Rings found{.rings = 2 * Packing(node, devices, true).most()};
  if (found.rings == 0) found.chains = Packing(node, devices, false).most();
  return found;
}

Rings rings_of(std::span<const DeviceId> members, std::int64_t per_node, const Cluster& cluster) {
  const NodeId node = cluster.node_of(members.front());
  std::vector<std::size_t> positions;
  for (const DeviceId d : members)
    if (cluster.node_of(d) == node)
      positions.push_back(index(d) - index(cluster.first_device(node)));
  const std::size_t wanted =
      std::min<std::size_t>(static_cast<std::size_t>(per_node), cluster.node(node).devices);
  if (positions.size() < wanted) {
    positions.resize(wanted);
    std::iota(positions.begin(), positions.end(), std::size_t{0});
  }
  return rings_of(cluster.node(node), positions);
}

}  // namespace baechi
