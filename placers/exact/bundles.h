/// A problem as the programs of Tarnawski et al. see it: bundles of ops that share a device, nets
/// that join them, and devices by class.
#pragma once

#include "placers/interface/colocation.h"

namespace baechi::exact {

enum class BundleId : std::uint32_t {};

class BundleOrder {
 public:
  BundleOrder() = default;
  explicit BundleOrder(std::size_t bundles) : before_(bundles), after_(bundles) {}

  /// From sorted, distinct pairs (a, b): a comes directly before b.
  BundleOrder(std::size_t bundles, std::span<const std::pair<BundleId, BundleId>> pairs)
      : BundleOrder(bundles) {
    for (const auto& [a, b] : pairs) {
      after_[a].push_back(b);
      before_[b].push_back(a);
    }
  }

  std::size_t size() const { return before_.size(); }
  auto bundles() const { return before_.ids(); }
  /// The direct predecessors, ascending.
  std::span<const BundleId> before(BundleId b) const { return before_[b]; }
  std::span<const BundleId> after(BundleId b) const { return after_[b]; }

  BundleOrder reversed() const {
    BundleOrder order = *this;
    std::swap(order.before_, order.after_);
    return order;
  }

 private:
  IdVector<BundleId, std::vector<BundleId>> before_, after_;
};

/// Which colocation units are joined into bundles.
struct BundleRules {
  /// The order of bundles: that of a pipeline (see Bundles), or that of all data edges.
  enum class Order : std::uint8_t { pipeline, data } order = Order::pipeline;
  /// Units on a cycle become one bundle: a pipeline cannot run them apart.
  bool join_cycles = true;
  /// Where a bundle of no time with a single neighbour joins that neighbour. `safe`: where that
  /// cannot make a plan worse; `all`: where the original's program does, although its weights might
  /// fit better elsewhere.
  enum class Leaves : std::uint8_t { apart, safe, all } leaves = Leaves::safe;
  /// Weights count even where memory is ample: replicas exchange them.
  bool weights_cost = false;
};

/// The bundles of one problem. A bundle is a set of ops that must not be split: a colocation unit,
/// or several.
///
/// Order of a pipeline: bundle a comes before b if an op of Phase::forward in a writes a tensor
/// that such an op in b reads. Units without forward ops are ordered by the reverse of their edges
/// to other ops of later phases, because the backward pass mirrors the forward pass. Other edges do
/// not order.
/// Source: Tarnawski et al., NeurIPS 2020, and its program's preprocessing.
class Bundles {
 public:
  Bundles(const Problem& problem, const ColocationUnits& units,
          const std::vector<DeviceClass>& classes, BundleRules rules);

  std::size_t size() const { return weights_.size(); }
  auto bundles() const { return weights_.ids(); }
  BundleId of(OpId v) const { return bundle_[v]; }

  /// Sum over the ops of the bundle; nothing if one of them cannot run on the class.
  std::optional<Duration> time(BundleId b, std::size_t cls) const {
    const Duration time = times_[cls][b];
    return time < Duration::zero() ? std::nullopt : std::optional(time);
  }
  /// The part of time() that ops of phases later than Phase::forward take.
  Duration later_time(BundleId b, std::size_t cls) const { return later_times_[cls][b]; }
  Bytes weights(BundleId b) const { return weights_[b]; }

  /// Bundles that share a tensor: a device pays for a net once if some but not all of its pins are
  /// there.
  struct Net {
    Duration time{};
    Duration later_time{};       ///< the part of it for outputs of later phases
    std::vector<BundleId> pins;  ///< two or more, ascending
  };
  const std::vector<Net>& nets() const { return nets_; }
  std::span<const std::uint32_t> nets_of(BundleId b) const { return nets_of_[b]; }

  const BundleOrder& order() const { return order_; }
  std::span<const BundleId> before(BundleId b) const { return order_.before(b); }
  std::span<const BundleId> after(BundleId b) const { return order_.after(b); }

  /// The leaves without predecessors, and those without successors, that BundleRules::Leaves::all
  /// would have joined and `safe` did not.
  std::size_t sources_left() const { return sources_left_; }
  std::size_t sinks_left() const { return sinks_left_; }

 private:
  friend class BundleMaker;
  IdVector<OpId, BundleId> bundle_;
  std::vector<IdVector<BundleId, Duration>> times_;  // [classes][bundles]; < 0: cannot run
  std::vector<IdVector<BundleId, Duration>> later_times_;
  IdVector<BundleId, Bytes> weights_;
  std::vector<Net> nets_;
  IdVector<BundleId, std::vector<std::uint32_t>> nets_of_;
  BundleOrder order_;
  std::size_t sources_left_ = 0, sinks_left_ = 0;
};

}  // namespace baechi::exact
