/// The machines that a training is planned on, and the plans that can be tried on them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "scenarios/planning/plan_search.h"
#include "scenarios/read/scenario.h"

namespace baechi {

/// Nodes of a kind that devices.yaml knows, as many as have `devices` devices. Throws InputError:
/// the kind is that of the flag --nodes, the number that of --devices.
ClusterChoice cluster_of_nodes(const std::string& kind, const std::string& devices);

/// The kind of device of that name in devices.yaml. Throws InputError, which begins with `flag`.
std::shared_ptr<const DeviceModel> device_kind(const std::string& name, std::string_view flag);

/// Throws InputError unless all devices are of one kind.
void require_one_kind(const ClusterChoice& cluster);

/// Replaces the empty lists of `space`: ranks of tensor parallelism are 1, 2, 4, ... in a node that
/// can share the model's tensors; stages are 1, 2, 4, ... devices; samples of a micro-batch are
/// 1, 2, 4, ... up to 64. Throws InputError if the model itself is wrong.
PlanSpace with_defaults(PlanSpace space, const TrainingJob& job, const Cluster& cluster);

}  // namespace baechi
