#include "scenarios/run/hashes.h"

#include "scenarios/read/sections.h"
#include "sim/random.h"

namespace baechi {
namespace {

void add_lanes(Hash& hash, const OpGraph& graph) {
  for (const std::string& lane : graph.lanes()) hash.add(lane);
  for (const OpId v : graph.ops()) hash.add(static_cast<std::int64_t>(graph.lane(v)));
  for (const Collective& c : graph.collectives()) {
    hash.add(to_text(c.kind));
    hash.add(c.bytes.count);
    for (const std::uint32_t n :
         {c.ranks, c.nodes, c.sharing, static_cast<std::uint32_t>(index(c.first)), c.members})
      hash.add(std::int64_t{n});
  }
}

void add(Hash& hash, const Link& link) {
  hash.add(link.bandwidth.bytes_per_second);
  hash.add(link.latency.count());
}

void add(Hash& hash, const CalibrationChoice& calibration) {
  if (calibration.measured == nullptr) return;
  hash.add(calibration_yaml(*calibration.measured));
  hash.add(calibration.use.mode);
  hash.add(calibration.use.way);
  for (const EffectName& effect : effect_names())
    hash.add(std::int64_t{calibration.use.effects.*effect.on});
}

void add(Hash& hash, const ClusterChoice& cluster) {
  for (const DeviceChoice& d : cluster.devices) {
    hash.add(static_cast<std::int64_t>(d.count));
    hash.add(d.name);
    hash.add(d.kind);
    hash.add(d.memory.count);
    hash.add(d.speed);
  }
  hash.add(cluster.memory_fraction);
  add(hash, cluster.link);
  for (const LinkChoice& l : cluster.links) {
    hash.add(static_cast<std::int64_t>(l.from));
    hash.add(static_cast<std::int64_t>(l.to));
    add(hash, l.link);
  }
  for (const NodeChoice& n : cluster.nodes) {
    hash.add(static_cast<std::int64_t>(n.count));
    hash.add(std::int64_t{n.node.devices});
    hash.add(std::int64_t{n.node.nics});
    for (const Link& link : {n.node.network, n.node.inside, n.node.unwired}) add(hash, link);
    for (const std::uint32_t wires : n.node.wires) hash.add(std::int64_t{wires});
  }
  hash.add(cluster.collectives_text);
  add(hash, cluster.calibration);
  if (!cluster.fit) return;
  for (const double x : {cluster.fit->us_per_byte, cluster.fit->intercept_us, cluster.fit->factor})
    hash.add(x);
  hash.add(std::int64_t{cluster.fit->whole_us} * 2 + std::int64_t{cluster.fit->empty_free});
}

void add(Hash& hash, const EngineOptions& engine) {
  for (const auto n : {static_cast<int>(engine.semantics), static_cast<int>(engine.transfers),
                       static_cast<int>(engine.queue), int{engine.cache_tensors},
                       int{engine.overlap}, int{engine.enforce_memory}})
    hash.add(std::int64_t{n});
  // Hashed only if set, because the arena stores hashes of points without them.
  if (engine.overlapped != 1.0 || engine.disturbed != 1.0) {
    hash.add(engine.overlapped);
    hash.add(engine.disturbed);
  }
}

void add(Hash& hash, const ProfileChoice& profile) {
  hash.add(profile.transfers ? static_cast<std::int64_t>(*profile.transfers) : std::int64_t{-1});
  hash.add(profile.error);
}

}  // namespace

std::uint64_t fingerprint(const OpGraph& graph) {
  Hash hash;
  for (const std::string& kind : graph.device_kinds()) hash.add(kind);
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    hash.add(graph.name(v));
    hash.add(graph.kind(v));
    if (graph.has_modules()) hash.add(graph.module(v));
    for (const std::int64_t n : {op.compute.count(), op.persistent.count, op.temporary.count})
      hash.add(n);
    for (const auto n :
         {static_cast<std::uint32_t>(op.group), static_cast<std::uint32_t>(op.forward),
          static_cast<std::uint32_t>(op.phase)})
      hash.add(std::int64_t{n});
    for (std::size_t k = 1; k < graph.device_kinds().size(); ++k)
      hash.add(graph.compute(v, k).value_or(Duration{-1}).count());
    for (const OpWork& kernel : graph.kernels(v)) {
      hash.add(kernel.flops);
      hash.add(kernel.traffic.count);
    }
  }
  for (const TensorId t : graph.tensors()) {
    const Tensor& tensor = graph.tensor(t);
    hash.add(tensor.size.count);
    hash.add(static_cast<std::int64_t>(index(tensor.producer)) * 4 + (tensor.reference ? 2 : 0) +
             (tensor.control ? 1 : 0));
    hash.add(graph.measured_transfer(t).value_or(Duration{-1}).count());
  }
  for (const EdgeId e : graph.edges()) {
    hash.add(static_cast<std::int64_t>(index(graph.edge(e).tensor)));
    hash.add(static_cast<std::int64_t>(index(graph.edge(e).dst)));
    hash.add(std::int64_t{graph.added(e)});
  }
  if (!graph.plain()) add_lanes(hash, graph);
  return hash.value();
}

std::uint64_t hash_of_devices(const ClusterChoice& cluster) {
  Hash hash;
  for (const DeviceChoice& d : cluster.devices) {
    hash.add(static_cast<std::int64_t>(d.count));
    hash.add(d.kind);
    hash.add(d.speed);
  }
  add(hash, cluster.calibration);
  return hash.value();
}

std::uint64_t hash_of_times(const ClusterChoice& cluster) {
  ClusterChoice roomy = cluster;
  for (DeviceChoice& d : roomy.devices) d.memory = {};
  roomy.memory_fraction = 1.0;
  Hash hash;
  add(hash, roomy);
  return hash.value();
}

std::uint64_t hash_of_point(std::uint64_t graph, const ClusterChoice& cluster,
                            const EngineOptions& engine, const ProfileChoice& profile) {
  Hash hash;
  hash.add(static_cast<std::int64_t>(graph));
  add(hash, cluster);
  add(hash, engine);
  add(hash, profile);
  return hash.value();
}

}  // namespace baechi
