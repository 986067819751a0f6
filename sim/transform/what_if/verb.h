/// The verbs of what-if rules, and their input: a step and its devices. A verb is a pure function
/// of a step and some of its ops.
#pragma once
#include <unordered_set>

#include "sim/cluster/device_model.h"
#include "sim/transform/graph_copy.h"

namespace baechi::what_if {

/// What is known about the devices of a step.
struct StepDevices {
  /// Adds times by work to a graph without times.
  std::function<OpGraph(const OpGraph&)> timed{};
  /// One for each device type in the device table; the first device's type first.
  std::vector<std::shared_ptr<const DeviceModel>> models{};
};

/// A step before or after its ops have devices.
struct Step {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]; empty before placing

  bool placed() const { return !device.empty(); }
  DeviceId device_of(OpId v) const { return placed() ? device[v] : DeviceId{}; }
};

/// The data that a rule may use.
struct Scope {
  const Step& step;
  const StepDevices& devices;

  const OpGraph& graph() const { return step.graph; }
};

/// The ops that a rule selects. [num_ops]
using Selection = IdVector<OpId, bool>;

/// The result of a verb on a step.
struct Change {
  OpGraph graph;
  IdVector<OpId, OpId> mapped_op{};  ///< [ops of the step] as Transformed::mapped_op
  IdVector<OpId, OpId> anchor{};     ///< [ops of graph] the op of the step whose device it is on
  /// [ops of graph] Ops whose work the verb changed: their times are scaled by the roofline of the
  /// work. Empty: none.
  IdVector<OpId, bool> reworked{};
};

/// The step after `change`: every op on the device of its anchor; with a device model, also new
/// times of reworked ops, and times of new ops with work.
Step apply_change(const Step& before, Change change, const StepDevices& devices);

class Verb {
 public:
  virtual ~Verb() = default;
  /// Throws InputError if it does not apply to the selected ops.
  virtual Change apply(const Scope& scope, const Selection& selected) const = 0;
  /// Whether it reads or changes times, so that the graph must have them.
  virtual bool needs_times() const { return false; }
  /// Factor on the samples per step. A verb with another value than 1 applies to all ops, before
  /// placing.
  virtual double samples() const { return 1.0; }
};

using MakeVerb = std::unique_ptr<Verb>(Options&);
struct VerbEntry {
  std::string_view name;
  std::string_view summary;
  MakeVerb* make;
};
std::span<const VerbEntry> verbs();

/// First set the callbacks, then call ops(), edges(), built(). Ids of new ops and tensors are the
/// builder's.
class Copying {
 public:
  explicit Copying(const OpGraph& graph);  ///< `graph` outlives this

  std::function<bool(OpId)> keeps{};  ///< default: all
  std::function<void(OpId, OpSpec&)> respec{};
  std::function<Duration(OpId, Duration, std::size_t kind)> retime{};
  std::function<OpWork(OpId, OpWork)> rework{};
  std::function<Bytes(TensorId)> resize{};
  std::function<void(OpId)> before{}, after{};  ///< called before, and after, an op is copied

  void ops();
  /// Copies edges between kept ops, except those for which `keep` is false.
  void edges(const std::function<bool(const Edge&)>& keep = {}) { copy_.add_edges(tensors_, keep); }

  /// A new op on the device of `anchor`, and in its group. Its time follows from `work` unless
  /// `time` is given.
  OpId insert(const OpSpec& spec, OpId anchor, const OpWork& work = {},
              std::optional<Duration> time = std::nullopt);
  /// A unique name: `name`, with a number appended if necessary.
  std::string unique_name(const std::string& name);

  OpGraphBuilder& builder() { return copy_.builder(); }
  GraphCopy& copy() { return copy_; }
  OpId made(OpId v) const { return copy_.copy_of(v); }
  TensorId tensor(TensorId t) const { return tensors_[t]; }  ///< of a kept op

  Change built() &&;
  /// ops(), edges() and built().
  Change whole() && {
    ops();
    edges();
    return std::move(*this).built();
  }

 private:
  const OpGraph& graph_;
  GraphCopy copy_;
  IdVector<TensorId, TensorId> tensors_;
  IdVector<OpId, OpId> anchor_;                   // [ops of the builder]
  std::unordered_set<std::string_view> names_;    // of the graph, filled by unique_name()
  std::vector<std::pair<OpId, OpId>> colocated_;  // new ops and their anchors
};

}  // namespace baechi::what_if
