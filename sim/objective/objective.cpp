#include "sim/objective/objective.h"

#include <cctype>
#include <tuple>

#include "sim/objective/replicas.h"

namespace baechi {
namespace {

std::string fact_name(std::size_t part, std::string_view of) {
  return fmt::format("stage_{}_{}", part, of);
}

/// The fact's value if it is a whole number from 0 to `most`; else -1.
std::int64_t whole(const Placement& placement, const std::string& name, std::int64_t most) {
  const auto found = placement.facts.find(name);
  if (found == placement.facts.end()) return -1;
  const double value = found->second;
  const bool fits =
      value >= 0.0 && value <= static_cast<double>(most) && value == std::floor(value);
  return fits ? static_cast<std::int64_t>(value) : -1;
}

class ReplicasReader {
 public:
  ReplicasReader(const Problem& problem, const std::vector<DeviceClass>& classes,
                 const Placement& placement)
      : problem_(problem),
        classes_(classes),
        placement_(placement),
        part_of_(problem.cluster.num_devices(), none) {}

  Replicas read() {
    constexpr std::int64_t most = 1'000'000'000;
    const bool given = placement_.facts.contains("micro_batches");
    replicas_.micro_batches = given ? whole(placement_, "micro_batches", most) : 0;
    if (replicas_.micro_batches < 0) wrong("'micro_batches' is not a whole number");
    while (placement_.facts.contains(fact_name(replicas_.parts.size(), "first"))) add_part();
    if (!replicas_.parts.empty()) check_ops();
    return std::move(replicas_);
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  [[noreturn]] static void wrong(const std::string& what) {
    throw InputError("the placement's replicas: " + what);
  }

  void add_part() {
    const std::size_t part = replicas_.parts.size();
    const auto devices = static_cast<std::int64_t>(problem_.cluster.num_devices());
    const std::int64_t first = whole(placement_, fact_name(part, "first"), devices - 1);
    const std::int64_t count = whole(placement_, fact_name(part, "devices"), devices);
    if (first < 0) wrong(fmt::format("'stage_{}_first' is none of {} devices", part, devices));
    if (count < 1)
      wrong(fmt::format("'stage_{}_devices' is no number from 1 to {}", part, devices));
    const DeviceId d{static_cast<std::uint32_t>(first)};
    const auto cls = std::ranges::find_if(
        classes_, [&](const DeviceClass& c) { return std::ranges::binary_search(c.devices, d); });
    const auto begin = std::ranges::lower_bound(cls->devices, d);
    if (cls->devices.end() - begin < count)
      wrong(fmt::format("stage {} has {} devices from '{}' on, and the cluster has {} such", part,
                        count, problem_.cluster.device(d).name, cls->devices.end() - begin));
    if (count > 1 && cls->core)
      wrong(fmt::format("'{}' is a core, and cores have no replicas",
                        problem_.cluster.device(d).name));
    if (replicas_.micro_batches % count != 0)
      wrong(fmt::format("{} devices of stage {} do not divide {} micro-batches", count, part,
                        replicas_.micro_batches));
    auto& shared = replicas_.parts.emplace_back(begin, begin + count);
    for (const DeviceId taken : shared) {
      if (part_of_[taken] != none)
        wrong(fmt::format("'{}' is in stages {} and {}", problem_.cluster.device(taken).name,
                          part_of_[taken], part));
      part_of_[taken] = part;
    }
  }

  void check_ops() const {
    for (const OpId v : problem_.graph.ops()) {
      const DeviceId d = placement_.device[v];
      if (part_of_[d] == none || replicas_.parts[part_of_[d]].front() != d)
        wrong(fmt::format("op '{}' is on '{}', which is the first device of no stage",
                          problem_.graph.name(v), problem_.cluster.device(d).name));
    }
  }

  const Problem& problem_;
  const std::vector<DeviceClass>& classes_;
  const Placement& placement_;
  IdVector<DeviceId, std::size_t> part_of_;
  Replicas replicas_{};
};

}  // namespace

Replication Replication::of(const Problem& problem, const std::vector<DeviceClass>& classes,
                            std::int64_t micro_batches) {
  Replication all{.allowed = true, .micro_batches = micro_batches};
  const bool training = std::ranges::any_of(
      problem.graph.ops(), [&](OpId v) { return problem.graph.op(v).phase != Phase::forward; });
  for (const DeviceClass& cls : classes) {
    double sum = 0.0, pairs = 0.0;
    for (const DeviceId a : cls.devices) {
      for (const DeviceId b : cls.devices) {
        if (a == b) continue;
        sum += 1e9 / problem.cluster.link(a, b).bandwidth.bytes_per_second;
        pairs += 1.0;
      }
    }
    all.ns_per_byte.push_back(training && pairs > 0.0 ? sum / pairs : 0.0);
  }
  return all;
}

bool Replication::allows(const DeviceClass& cls, std::int64_t replicas) const {
  if (replicas == 1) return true;
  return allowed && !cls.core && (micro_batches == 0 || micro_batches % replicas == 0);
}

double Replication::exchange(std::size_t cls, std::int64_t replicas) const {
  if (replicas == 1) return 0.0;
  const auto r = static_cast<double>(replicas);
  const double samples = micro_batches == 0 ? r : static_cast<double>(micro_batches);
  return 4.0 * (r - 1.0) / (r * samples) * ns_per_byte[cls];
}

bool is_replica_fact(std::string_view name) {
  if (name == "micro_batches") return true;
  if (!name.starts_with("stage_")) return false;
  name.remove_prefix(6);
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits > 0 && (name == "_first" || name == "_devices");
}

bool has_replicas(const Placement& placement) {
  const auto from = placement.facts.lower_bound("stage_"), to = placement.facts.end();
  return std::any_of(from, to, [](const auto& fact) {
    return fact.second > 1.0 && fact.first.ends_with("_devices") && is_replica_fact(fact.first);
  });
}

Replicas replicas_of(const Problem& problem, const std::vector<DeviceClass>& classes,
                     const Placement& placement) {
  return ReplicasReader(problem, classes, placement).read();
}

void write_replicas(const Replicas& replicas, std::map<std::string, double>& facts) {
  facts["micro_batches"] = static_cast<double>(replicas.micro_batches);
  for (std::size_t n = 0; n < replicas.parts.size(); ++n) {
    facts[fact_name(n, "first")] = static_cast<double>(index(replicas.parts[n].front()));
    facts[fact_name(n, "devices")] = static_cast<double>(replicas.parts[n].size());
  }
}

MakeObjective make_step_time, make_max_load, make_latency;

std::span<const ObjectiveEntry> objectives() {
  static constexpr ObjectiveEntry table[] = {
      {"step_time", "time of one simulated step, under the engine options",
       "sim/engine/simulation.h", make_step_time},
      {"max_load", "time per sample of a pipeline: the largest device load",
       "Tarnawski et al., NeurIPS 2020, throughput", make_max_load},
      {"latency", "time of one sample; each device runs its part as a whole",
       "Tarnawski et al., NeurIPS 2020, latency", make_latency},
  };
  return table;
}

std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where) {
  return make_entry(objectives(), "objective", name, std::move(options), where);
}

std::strong_ordering operator<=>(const Score& a, const Score& b) {
  return std::make_tuple(a.deadlock, a.misplaced + a.split_groups, a.over, a.value) <=>
         std::make_tuple(b.deadlock, b.misplaced + b.split_groups, b.over, b.value);
}

Score constraints(const Problem& p, const Placement& placement) {
  Score score;
  IdVector<DeviceId, Bytes> weights(p.cluster.num_devices());
  for (const OpId v : p.graph.ops()) {
    const DeviceId d = placement.device[v];
    weights[d] += p.graph.op(v).persistent;
    if (p.costs.compute(v, d) == cannot_run) ++score.misplaced;
  }
  for (const DeviceId d : p.cluster.devices()) {
    const Device& device = p.cluster.device(d);
    if (p.engine.enforce_memory && !device.is_core())
      score.over += std::max(Bytes{}, weights[d] - device.memory);
  }
  for (const GroupId g : p.graph.groups()) {
    const auto members = p.graph.members(g);
    const DeviceId device = placement.device[members.front()];
    if (std::ranges::any_of(members, [&](OpId v) { return placement.device[v] != device; }))
      ++score.split_groups;
  }
  return score;
}

bool keeps_constraints(const Problem& p, const Placement& placement,
                       std::span<const OpMove> moved) {
  const auto apart = [&](OpId a, OpId b) { return placement.device[a] != placement.device[b]; };
  for (const auto& [v, to] : moved) {
    if (p.costs.compute(v, to) == cannot_run) return false;
    const GroupId g = p.graph.op(v).group;
    if (g == no_group) continue;
    const auto members = p.graph.members(g);
    const OpId first = members.front();
    if (apart(v, first)) return false;
    // Moved members are compared with the first above; here the first moved.
    if (v == first && std::ranges::any_of(members, [&](OpId m) { return apart(m, first); }))
      return false;
  }
  return true;
}

}  // namespace baechi
