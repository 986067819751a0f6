#include "scenarios/run/build.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "sim/collectives/collective_models.h"
#include "sim/error.h"
#include "sim/problem/problem.h"
#include "sim/random.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

void check_link(const Link& link, std::string_view what, Mistakes& mistakes) {
  if (!(link.bandwidth.bytes_per_second > 0.0))
    mistakes.add(fmt::format("cluster: {} needs a bandwidth above 0, such as '5.7 GB/s'", what));
  if (link.latency < Duration::zero())
    mistakes.add(fmt::format("cluster: {} has a negative latency", what));
}

void check(const ClusterChoice& choice) {
  Mistakes mistakes;
  std::size_t count = 0;
  for (const DeviceChoice& d : choice.devices) {
    count += std::min(d.count, most_devices + 1);
    if (!(d.speed > 0.0) || !std::isfinite(d.speed))
      mistakes.add(fmt::format("cluster: the speed of '{}' is not above 0", d.name));
    if (d.memory < Bytes{})
      mistakes.add(fmt::format("cluster: the memory of '{}' is negative", d.name));
  }
  if (count == 0) mistakes.add("cluster: it needs at least one device");
  if (count > most_devices) mistakes.add(fmt::format("cluster: at most {} devices", most_devices));
  if (!(choice.memory_fraction > 0.0) || choice.memory_fraction > 1.0)
    mistakes.add(
        fmt::format("cluster: a memory fraction of {} is not in (0, 1]", choice.memory_fraction));
  if (!choice.fit && count > 1 && choice.nodes.empty())
    check_link(choice.link, "its link", mistakes);
  if (const Calibration* c = choice.calibration.measured.get();
      c != nullptr && count > c->partitions.size())
    mistakes.add(fmt::format("{}: calibrated for {} partitions, and the cluster has {} devices",
                             choice.calibration.file, c->partitions.size(), count));
  for (const LinkChoice& l : choice.links) {
    check_link(l.link, "a link between groups", mistakes);
    if (l.from >= choice.devices.size() || l.to >= choice.devices.size())
      mistakes.add(fmt::format("cluster: a link joins groups {} and {} of {}", l.from, l.to,
                               choice.devices.size()));
  }
  mistakes.throw_if_any();
}

/// The link for which latency + size / bandwidth equals the fit, unrounded.
Link link_of(OriginalCosts::Fit fit) {
  return {.bandwidth = {1e6 / (fit.factor * fit.us_per_byte)},
          .latency = from_us(fit.intercept_us).value_or(Duration::zero())};
}

/// The cluster of `devices`, with the link and nodes of `choice`, but without its `links`.
Cluster joined(const ClusterChoice& choice, IdVector<DeviceId, Device> devices) {
  if (choice.nodes.empty()) {
    const bool given = choice.link.bandwidth.bytes_per_second > 0.0;
    return Cluster::uniform(std::move(devices),
                            choice.fit && !given ? link_of(*choice.fit) : choice.link);
  }
  std::vector<Node> nodes;
  for (const NodeChoice& n : choice.nodes) nodes.insert(nodes.end(), n.count, n.node);
  return Cluster::of_nodes(std::move(devices), std::move(nodes));
}

}  // namespace

Trace load_generated(const Choice& choice) {
  Trace trace = generate_trace(choice.name, choice.options, choice.where);
  if (trace.name.empty()) trace.name = choice.name;
  return trace;
}

std::optional<Trace> load_generator_words(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  const std::filesystem::file_status found = std::filesystem::status(with_data_folder(text));
  if (name.find_first_of("/.") != name.npos ||
      (std::filesystem::exists(found) && !std::filesystem::is_directory(found)))
    return std::nullopt;
  const std::vector<std::string> known = entry_names(generators());
  if (std::ranges::find(known, name) == known.end())
    throw InputError(
        fmt::format("{}: neither a file nor a generator{} ('baechi list generators' lists these)",
                    text, did_you_mean(name, known)));
  return load_generated(parse_choice(text, text));
}

Trace load_graph(const GraphChoice& choice) {
  if (choice.generate) return load_generated(*choice.generate);
  Trace trace = read_trace(choice.file, choice.importer, choice.import_options);
  if (trace.name.empty()) trace.name = std::filesystem::path(choice.file).stem().string();
  return trace;
}

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

Cluster make_cluster(const ClusterChoice& choice) {
  check(choice);
  IdVector<DeviceId, Device> devices;
  std::vector<std::size_t> group;  // [num_devices], into choice.devices
  for (std::size_t g = 0; g < choice.devices.size(); ++g) {
    const DeviceChoice& d = choice.devices[g];
    for (std::size_t i = 0; i < d.count; ++i) {
      devices.push_back({.name = fmt::format("{}{}", d.name, devices.size()),
                         .kind = d.kind,
                         .memory = d.usable(choice.memory_fraction),
                         .speed = d.speed});
      group.push_back(g);
    }
  }
  Cluster cluster = joined(choice, std::move(devices));
  if (choice.collectives != nullptr)
    cluster.set_collectives(choice.collectives);
  else if (!choice.nodes.empty())
    cluster.set_collectives(make_collectives("hierarchical", Options("hierarchical")));
  for (const LinkChoice& l : choice.links) {
    for (const DeviceId src : cluster.devices()) {
      for (const DeviceId dst : cluster.devices()) {
        const std::size_t a = group[index(src)], b = group[index(dst)];
        if ((a == l.from && b == l.to) || (a == l.to && b == l.from))
          cluster.set_link(src, dst, l.link);
      }
    }
  }
  return cluster;
}

std::unique_ptr<CostModel> make_costs(const ClusterChoice& choice, const OpGraph& graph,
                                      const Cluster& cluster, bool check) {
  std::unique_ptr<CostModel> plain;
  if (choice.fit)
    plain = std::make_unique<OriginalCosts>(graph, cluster, *choice.fit);
  else
    plain = std::make_unique<ProfiledCosts>(graph, cluster);
  const CalibrationChoice& calibration = choice.calibration;
  if (calibration.measured != nullptr)
    plain = std::make_unique<CalibratedCosts>(std::move(plain), graph, calibration.measured,
                                              calibration.use);
  if (check) check_limits(graph, cluster, *plain);
  return plain;
}

}  // namespace baechi
