#include "scenarios/run/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/read/calibration_file.h"
#include "scenarios/run/sweep_parts.h"
#include "sim/problem/problem.h"
#include "sim/random.h"

namespace baechi {
namespace {

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

/// Sweep::key() of a run whose point has the hash `point`.
std::uint64_t key_of(const Run& run, std::uint64_t point, std::string_view version) {
  Hash hash;
  hash.add(version);
  hash.add(static_cast<std::int64_t>(point));
  hash.add(run.placer.text);
  hash.add(static_cast<std::int64_t>(run.seed));
  hash.add(std::int64_t{run.file.report.placements});
  if (run.measure.text != default_measure) hash.add(run.measure.text);
  return hash.value();
}

/// The index in `starts` of the file that contains `number`; `number` becomes its index in that
/// file.
std::size_t file_of(std::span<const FileStart> starts, std::size_t FileStart::* begin,
                    std::size_t& number) {
  std::size_t file = starts.size() - 1;
  while (starts[file].*begin > number) --file;
  number -= starts[file].*begin;
  return file;
}

}  // namespace

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

Sweep::Sweep(SweepParts parts) : parts_(std::make_unique<SweepParts>(std::move(parts))) {
  parts_->hashes.reserve(num_runs());
  for (std::size_t id = 0; id < num_runs(); ++id) {
    const Run r = run(id);
    const std::uint64_t point = point_hash(r);
    parts_->hashes.push_back({.key = key_of(r, point, header().version), .point = point});
  }
  parts_->header.hash = hash_of_runs();
}
Sweep::Sweep(Sweep&&) noexcept = default;
Sweep& Sweep::operator=(Sweep&&) noexcept = default;
Sweep::~Sweep() = default;

std::span<const ScenarioFile> Sweep::files() const {
  return parts_->files;
}

const ResultsHeader& Sweep::header() const {
  return parts_->header;
}

std::span<const std::string> Sweep::warnings() const {
  return parts_->warnings;
}

std::size_t Sweep::num_points() const {
  return parts_->starts.empty() ? 0
                                : parts_->starts.back().point + parts_->files.back().num_points();
}

Run Sweep::run(std::size_t id) const {
  std::size_t in_file = id;
  const std::size_t number = file_of(parts_->starts, &FileStart::run, in_file);
  const ScenarioFile& file = parts_->files[number];
  const FileStart& start = parts_->starts[number];
  const std::size_t point = in_file / file.runs_per_point();
  const std::size_t rest = in_file % file.runs_per_point();
  const std::size_t answer = rest / file.measures.size();  // index of the placement in the point
  const PointSections b = file.sections(point);
  const std::size_t graph = start.graph +
                            (b.graph * file.transforms.size() + b.transforms) * start.num_kinds +
                            start.kinds[b.cluster];
  Hash bound_of;
  bound_of.add(static_cast<std::int64_t>(graph));
  bound_of.add(static_cast<std::int64_t>(start.devices[b.cluster]));
  return {.id = id,
          .scenario = number,
          .point = point,
          .file = file,
          .graph = parts_->graphs[graph],
          .cluster = file.clusters[b.cluster],
          .engine = file.engines[b.engine],
          .profile = file.profiles[b.profile],
          .placer = file.placers[answer / file.seeds.size()],
          .seed = file.seeds[answer % file.seeds.size()],
          .measure = file.measures[rest % file.measures.size()],
          .placed = id - rest % file.measures.size(),
          .costed = start.costed + point / (file.engines.size() * file.profiles.size()),
          .bound_of = bound_of.value()};
}

Sweep::Ids Sweep::runs_of(std::size_t point) const {
  const std::size_t file = file_of(parts_->starts, &FileStart::point, point);
  const std::size_t each = parts_->files[file].runs_per_point();
  const std::size_t begin = parts_->starts[file].run + point * each;
  return {begin, begin + each};
}

Experiment Sweep::experiment(const Run& run) const {
  return {parts_->costed_graph(run.costed, run.graph, run.cluster), run.engine, run.profile};
}

LowerBounds Sweep::lower_bounds(const Run& run) const {
  // The bounds do not depend on links and memory.
  return *parts_->bounds->of(run.bound_of, [&] {
    const auto costed = parts_->costed_graph(run.costed, run.graph, run.cluster);
    return std::make_shared<const LowerBounds>(
        baechi::lower_bounds(*costed->graph->step, costed->cluster, *costed->step_costs));
  });
}

std::shared_ptr<const PlacerAnswer> Sweep::answer(
    const Run& run, const std::function<PlacerAnswer()>& place) const {
  const auto make = [&] { return std::make_shared<const PlacerAnswer>(place()); };
  return run.file.measures.size() == 1 ? make() : parts_->answers->of(run.placed, make);
}

std::uint64_t Sweep::point_hash(const Run& run) {
  Hash hash;
  hash.add(static_cast<std::int64_t>(run.graph.hash));
  add(hash, run.cluster);
  add(hash, run.engine);
  add(hash, run.profile);
  return hash.value();
}

std::uint64_t Sweep::key(const Run& run) const {
  return parts_->hashes[run.id].key;
}

RunResult Sweep::row(const Run& run) const {
  RunResult row;
  row.id = run.id;
  row.key = key(run);
  row.point = parts_->hashes[run.id].point;
  row.scenario = run.scenario;
  row.graph = run.graph.record;
  row.placer = run.placer.label;
  row.seed = run.seed;
  row.measure = run.measure.label;
  row.unit = run.measure.unit;
  row.memory_fraction = run.cluster.memory_fraction;
  for (const DeviceChoice& d : run.cluster.devices) {
    row.devices += d.count;
    row.memory = std::max(row.memory, d.usable(run.cluster.memory_fraction));
  }
  row.transfers = run.engine.transfers;
  row.at.resize(header().axes.size());
  const std::vector<std::string> at = run.file.point(run.point).at;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto axis = std::ranges::find(header().axes, run.file.axes[i]) - header().axes.begin();
    row.at[static_cast<std::size_t>(axis)] = at[i];
  }
  return row;
}

/// A hash of everything that determines the rows; paths of files are excluded.
std::string Sweep::hash_of_runs() const {
  Hash hash;
  for (const GraphRecord& g : header().graphs) hash.add(g.name + g.hash);
  for (const ScenarioFile& file : parts_->files) {
    hash.add(file.name);
    for (const std::string& axis : file.axes) hash.add(axis);
    for (const auto& values : file.axis_values)
      for (const std::string& value : values) hash.add(value);
    for (const Choice& c : file.placers) hash.add(c.label);
  }
  for (const auto& [key, point] : parts_->hashes) hash.add(static_cast<std::int64_t>(key));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace baechi
