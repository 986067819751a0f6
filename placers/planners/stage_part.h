/// The stage cost of plans with tensor and data parallelism and modes.
#pragma once
#include <tuple>

#include "placers/planners/staged_plan.h"

namespace baechi::planners {

/// Time costs of a stage's nodes. `inside` [nodes]: whether a node is in the stage.
class StageCost {
 public:
  StageCost(const PlannerInput& input, std::int64_t data_parallel,
            const IdVector<BundleId, char>& inside)
      : input_(input), d_(static_cast<double>(data_parallel)), inside_(inside) {}

  /// The cost of one node in one of its modes, per micro-batch: computing, its cut edges twice (a
  /// tensor and its gradient), and its share of the exchange of gradients, once per batch, by
  /// sharded parameter servers.
  double time(BundleId b, const PlannerMode& mode) const;
  double crossing_bytes(BundleId b, const PlannerMode& mode) const;

 private:
  const PlannerInput& input_;
  double d_;
  const IdVector<BundleId, char>& inside_;
};

/// Modes of the nodes of a stage, the fastest that fit.
struct ChosenModes {
  bool fits = false;   ///< false: not even the leanest modes do
  double extra = 0.0;  ///< time above that of the fastest modes
  double least = 0.0;  ///< lower bound on `extra` of any choice that fits, also with more
                       ///< micro-batches in flight
  std::vector<std::size_t> modes;  ///< [nodes]
};
/// All nodes must have modes of the degree. Ties: the first mode; the first node.
ChosenModes choose_modes(const PlannerInput& input, const std::vector<BundleId>& nodes,
                         std::size_t degree, std::int64_t data_parallel, std::int64_t in_flight,
                         ModeChoice choice, const IdVector<BundleId, char>& inside);

/// The mode of least time; ties: the first.
std::size_t fastest_mode(const std::vector<PlannerMode>& modes);

inline constexpr double no_time = std::numeric_limits<double>::infinity();

/// A stage that a StageTraversal changes node by node: the sums of its nodes' fastest modes for
/// each degree and, only if these do not fit in memory, the choice of modes.
class StagePart {
 public:
  StagePart(const PlannerInput& input, ModeChoice choice);

  void add(BundleId b) { change(b, 1.0); }
  void remove(BundleId b) { change(b, -1.0); }
  /// Whether the nodes need more work than all devices can do below the limit.
  bool hopeless() const { return work_ >= most_work_; }
  void set_limit(double most_work) { most_work_ = most_work * (1.0 + 1e-9); }

  /// Must be called before price() for each stage.
  void begin_stage(const std::vector<BundleId>& nodes) {
    taken_ = &nodes;
    sorted_.clear();
    chosen_.clear();
  }
  bool able(std::size_t degree) const { return sums_[degree].unable == 0; }
  /// Time of the stage in its fastest modes.
  double fast_time(std::size_t degree, std::int64_t data_parallel) const;

  struct Price {
    double time = 0.0;  ///< infinite if the stage does not fit
    bool hopeless =
        false;            ///< does not fit below the limit with more micro-batches in flight either
    bool memory = false;  ///< because of memory
  };
  Price price(std::size_t degree, std::int64_t data_parallel, std::int64_t in_flight, double fast,
              double limit);

 private:
  /// Sums over the nodes, for one degree.
  struct Sums {
    std::int64_t unable = 0;  // nodes without the degree
    double time = 0.0, weights = 0.0, per_batch = 0.0, stays = 0.0;
    double bytes = 0.0;  // of the cut edges, at the ends inside
  };
  void change(BundleId b, double sign);
  void cross(BundleId b, double sign);

  const PlannerInput& input_;
  ModeChoice choice_;
  const PlannerMode* fast(BundleId b, std::size_t t) const { return fast_[b][t]; }

  IdVector<BundleId, char> inside_;
  IdVector<BundleId, std::vector<const PlannerMode*>> fast_;  // [nodes][degrees]; null: none
  std::vector<std::size_t> in_position_,
      out_position_;  // [edges], index among the edges of the node
  IdVector<BundleId, double> least_work_;
  std::vector<Sums> sums_;  // [degrees]
  double work_ = 0.0, most_work_ = 0.0;
  const std::vector<BundleId>* taken_ = nullptr;  // the stage, in the order of the traversal
  std::vector<BundleId> sorted_;                  // the same, ascending, computed on demand
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, ChosenModes> chosen_;
};

}  // namespace baechi::planners
