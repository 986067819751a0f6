/// Splits whose parts may have replicas, as a mixed integer program.
#pragma once

#include "placers/exact/pipelines.h"
#include "placers/exact/placement_program.h"

namespace baechi::exact {

/// A number of equal devices that may take a part together.
struct DeviceShape {
  std::uint32_t cls = 0;
  std::uint32_t replicas = 1;
  double exchange = 0.0;  ///< nanoseconds per byte of weights
};

inline std::vector<DeviceShape> shapes_of(const std::vector<DeviceClass>& classes,
                                          const Replication& replication) {
  std::vector<DeviceShape> shapes;
  for (std::uint32_t s = 0; s < classes.size(); ++s)
    for (std::uint32_t r = 1; r <= classes[s].devices.size(); ++r)
      if (replication.allows(classes[s], r)) shapes.push_back({s, r, replication.exchange(s, r)});
  return shapes;
}

/// Bundles removed from an ideal, and their loads on a device of each class. Times are in
/// nanoseconds.
class PipelinePart {
 public:
  PipelinePart(const Bundles& bundles, const std::vector<DeviceClass>& classes,
               const std::vector<DeviceShape>& shapes, std::int64_t bound)
      : bound_(bound),
        bundles_(bundles),
        shapes_(shapes),
        classes_(classes.size()),
        pins_inside_(bundles.nets().size()) {
    for (std::size_t s = 0; s < classes.size(); ++s) {
      classes_[s].core = classes[s].core;
      classes_[s].memory = classes[s].memory.count;
      for (const BundleId b : bundles.bundles()) {
        const auto time = bundles.time(b, s);
        classes_[s].times.push_back(time ? time->count() : -1);
      }
    }
  }

  void add(BundleId b) {
    change<1>(b);
    for (const std::uint32_t n : bundles_.nets_of(b)) {
      const Bundles::Net& net = bundles_.nets()[n];
      const std::uint32_t inside = ++pins_inside_[n];
      if (inside == 1) cut_ += net.time.count();
      if (inside == net.pins.size()) cut_ -= net.time.count();
    }
  }
  void remove(BundleId b) {
    change<-1>(b);
    for (const std::uint32_t n : bundles_.nets_of(b)) {
      const Bundles::Net& net = bundles_.nets()[n];
      const std::uint32_t inside = pins_inside_[n]--;
      if (inside == 1) cut_ -= net.time.count();
      if (inside == net.pins.size()) cut_ += net.time.count();
    }
  }

  /// Whether neither this part nor a larger one has a load below the bound, even with free
  /// transfers.
  bool hopeless() const {
    return std::ranges::all_of(
        shapes_, [this](const DeviceShape& shape) { return compute_load(shape) >= bound_; });
  }
  /// Load of each device of the shape with free transfers: no larger part has less.
  std::int64_t compute_load(const DeviceShape& shape) const {
    return loaded(shape, classes_[shape.cls].compute);
  }
  /// Load of each device of the shape; no_load if they cannot take it.
  std::int64_t load(const DeviceShape& shape) const {
    const ClassLoad& cls = classes_[shape.cls];
    return loaded(shape, cls.compute + (cls.core ? 0 : cut_));
  }

 private:
  struct ClassLoad {
    bool core = false;
    std::int64_t memory = 0;
    IdVector<BundleId, std::int64_t> times{};  // < 0: cannot run
    std::int64_t compute = 0;
    std::int64_t unable = 0;  // bundles that cannot run
  };

  /// The load of each device of the shape, if a single device had the load `whole`.
  std::int64_t loaded(const DeviceShape& shape, std::int64_t whole) const {
    const ClassLoad& cls = classes_[shape.cls];
    if (cls.unable > 0 || weights_ > cls.memory) return no_load;
    return replica_load(whole, weights_, shape.replicas, shape.exchange);
  }

  template <int sign>
  void change(BundleId b) {
    weights_ += sign * bundles_.weights(b).count;
    for (ClassLoad& s : classes_) {
      const std::int64_t time = s.times[b];
      if (time < 0)
        s.unable += sign;
      else
        s.compute += sign * time;
    }
  }

  std::int64_t bound_;
  const Bundles& bundles_;
  const std::vector<DeviceShape>& shapes_;
  std::vector<ClassLoad> classes_;
  std::int64_t weights_ = 0;
  std::int64_t cut_ = 0;                    // time of the nets with some pins inside
  std::vector<std::uint32_t> pins_inside_;  // [nets]
};

struct ReplicatedStage {
  std::vector<OpId> ops;          ///< ascending
  std::vector<DeviceId> devices;  ///< each runs all of the ops; the placement has the first
  double time_us = 0.0;           ///< of a device, per sample
  Bytes weights{};                ///< of each device
};

/// Writes the stages into the facts and the detail of the placement on their first devices: the
/// facts of Replicas (sim/objective/replicas.h); of stage N `stage_N_us`; `stages`, `devices`,
/// `time_per_sample_us`, and `max_load_us`, which is the same.
void record_stages(const Pipeline& pipeline, std::int64_t micro_batches, Placement& placement);

/// The stages that record_stages() wrote, in the order of the pipeline. Empty if it wrote none, or
/// if an op was moved since and is not on the first device of a stage.
std::vector<ReplicatedStage> replicated_stages(const Problem& problem, const Placement& placement);

/// Parts of a split: for each class and number of replicas as many as the class has devices for. A
/// part's number takes the place of a device id: its bundles run on all of its replicas.
class ReplicatedParts {
 public:
  ReplicatedParts(const Problem& problem, const Bundles& bundles,
                  const std::vector<DeviceClass>& classes, const Replication& replication);

  /// Parts of each shape, with their numbers as device ids. [shapes]
  const std::vector<DeviceClass>& kinds() const { return kinds_; }

  /// Splits whose busiest device has a load per sample of at most `below` - `step`. As
  /// load_program(), but with parts in place of devices. A part's work and transfers are divided by
  /// its replicas, and the exchange of gradients is added. The parts with bundles take no more
  /// devices than there are. Columns of load_program() that only speed it up without replicas are
  /// omitted.
  /// Source: Tarnawski et al., NeurIPS 2020, integer program for throughput; replicas are ours,
  /// with the costs of `Replication`.
  LoadProgram program(Duration below, Duration step, bool contiguous) const;

  /// The split as stages on devices, with exact loads, by first device; nothing if weights do not
  /// fit. `part`: of each bundle.
  std::optional<Pipeline> stages_of(const IdVector<BundleId, DeviceId>& part) const;

 private:
  const Problem& problem_;
  const Bundles& bundles_;
  const std::vector<DeviceClass>& classes_;
  std::vector<DeviceShape> shapes_;
  std::vector<DeviceClass> kinds_;
};

/// The stages of a placement without replicas, in the order of the devices.
Pipeline stages_without_replicas(const Problem& problem, const Placement& placement);

}  // namespace baechi::exact
