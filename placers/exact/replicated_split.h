/// Splits whose parts may have replicas, as a mixed integer program.
#pragma once
#include "placers/exact/load_program.h"
#include "placers/exact/pipeline_part.h"
#include "placers/exact/pipelines.h"

namespace baechi::exact {

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
