/// Objectives, which score placements: less is better.
#pragma once
#include "sim/options.h"
#include "sim/problem/problem.h"

namespace baechi {

/// The objective's value of a placement, and by how much the placement is infeasible.
struct Score {
  Duration value{};              ///< less is better; only a hint if the placement is infeasible
  Bytes over{};                  ///< memory above the devices' limits, summed over the devices
  std::size_t misplaced = 0;     ///< ops on a device that cannot run them
  std::size_t split_groups = 0;  ///< colocation groups on more than one device
  bool deadlock = false;         ///< devices wait for each other in a cycle; there is no value
  /// A smoother value for searches, of about the value's size in ns, which also falls in steps
  /// towards a better value. 0: none, use the value.
  double guide = 0.0;

  bool feasible() const {
    return over == Bytes{} && misplaced == 0 && split_groups == 0 && !deadlock;
  }
  /// Less is better: fewer violations, then less missing memory, then the value; not the guide.
  friend std::strong_ordering operator<=>(const Score& a, const Score& b);
  friend bool operator==(const Score& a, const Score& b) { return (a <=> b) == 0; }
};

/// A change of a placement: `op` moves to device `to`.
struct OpMove {
  OpId op{};
  DeviceId to{};
};

/// Scores placements of one problem, which must outlive the Evaluator. Not thread-safe.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Score score(const Placement& placement) = 0;

  /// begin(), attempt() and keep() are for searches, which score many placements close to one, the
  /// base. An objective with incremental evaluation overrides all three; the scores are the same.
  /// begin() returns the score of `placement`, which becomes the base.
  virtual Score begin(const Placement& placement) { return score(placement); }
  /// The score of `placement`, which differs from the base only in the devices of the ops `moved`,
  /// each listed once. If the base fits in memory and `placement` does not, Score::over and the
  /// value may be less than those of score().
  virtual Score attempt(const Placement& placement, std::span<const OpId> /*moved*/) {
    return score(placement);
  }
  /// Makes the placement of the last attempt() the base.
  virtual void keep() {}

  /// False if the base fits and the persistent bytes of the moved ops certainly exceed a device's
  /// limit. Each op is moved at most once.
  virtual bool may_fit(std::span<const OpMove> /*change*/) { return true; }

  /// The number of changes of the base that one call of best_estimate() compares, at the cost of a
  /// few scores; 1 if this objective has no estimate.
  virtual std::size_t estimates() const { return 1; }
  /// The index of the change with the least estimated value. `changes`: at most estimates() lists
  /// of moves, each of which moves an op at most once. Ties: the first.
  virtual std::size_t best_estimate(std::span<const std::vector<OpMove>> /*changes*/) { return 0; }
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// An evaluator of `problem`, which must outlive the evaluator.
  virtual std::unique_ptr<Evaluator> on(const Problem& problem) const = 0;
  /// The score of one placement. For many placements of a problem, keep the evaluator.
  Score score(const Problem& problem, const Placement& placement) const {
    return on(problem)->score(placement);
  }
};

using MakeObjective = std::unique_ptr<Objective>(Options&);
struct ObjectiveEntry {
  std::string_view name;     ///< as written after --objective; results call it NAME_us
  std::string_view summary;  ///< one line for `list objectives`
  std::string_view source;   ///< paper and section
  MakeObjective* make;
};
std::span<const ObjectiveEntry> objectives();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where = {});

/// The members of a score other than value, deadlock and guide. Memory is that of weights, limited
/// on accelerators only (the model of Tarnawski et al.); Score::over is 0 if the problem does not
/// enforce memory limits.
Score constraints(const Problem& problem, const Placement& placement);

/// Whether `placement` misplaces no op and splits no group, given that this holds for the placement
/// from which it differs in the ops `moved` only.
bool keeps_constraints(const Problem& problem, const Placement& placement,
                       std::span<const OpMove> moved);

struct DeviceLoad {
  Duration forward{};   ///< forward ops and transfers of the tensors that they write
  Duration backward{};  ///< all other ops and transfers
  Duration total() const { return forward + backward; }
};

/// A core's load is the time of its ops. An accelerator's load also includes one transfer, through
/// host memory, of each tensor that it writes and others read, and of each tensor that it reads and
/// others write; computation and transfers do not overlap. Transfer times: mean_transfer().
/// [num_devices]
/// Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
/// NeurIPS 2020. Differs: links need not be equal; an op may write several tensors.
IdVector<DeviceId, DeviceLoad> device_loads(const Problem& problem, const Placement& placement);

/// The part of its accelerator to which each op belongs; unused for ops on cores. [num_ops]
using Parts = IdVector<OpId, std::uint32_t>;

/// The end of the last part, or nothing if parts wait for each other in a cycle.
///
/// A part starts when all its external inputs are done. It then runs their transfers, its ops, and
/// the transfers of its outputs to other devices in sequence; its ops are done at its end. An op on
/// a core starts when all its inputs are done; there are cores for all ops. Parts of one
/// accelerator run in the order of their numbers. Source: Tarnawski et al., NeurIPS 2020, integer
/// program for latency.
std::optional<Duration> latency_in_turn(const Problem& problem, const Placement& placement,
                                        const Parts& part);

}  // namespace baechi
