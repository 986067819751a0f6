#include "placers/exact/replicated_split.h"

namespace baechi::exact {

void record_stages(const Pipeline& pipeline, std::int64_t micro_batches, Placement& placement) {
  Replicas replicas{.parts = {}, .micro_batches = micro_batches};
  std::size_t devices = 0;
  std::string words;
  for (std::size_t n = 0; n < pipeline.stages.size(); ++n) {
    const PipelineStage& stage = pipeline.stages[n];
    replicas.parts.push_back(stage.devices);
    placement.facts[fmt::format("stage_{}_us", n)] = to_us(stage.load);
    words += fmt::format("{}{}", words.empty() ? "" : " + ", stage.devices.size());
    devices += stage.devices.size();
  }
  write_replicas(replicas, placement.facts);
  placement.facts["stages"] = static_cast<double>(pipeline.stages.size());
  placement.facts["devices"] = static_cast<double>(devices);
  placement.facts["time_per_sample_us"] = placement.facts["max_load_us"] = to_us(pipeline.load);
  placement.detail += fmt::format(
      "; {} stage{} on {} devices: {} per sample; the engine knows no replicas: a simulated step "
      "has each stage on its first device alone",
      pipeline.stages.size(), pipeline.stages.size() == 1 ? "" : "s", words,
      to_text(pipeline.load));
}

std::vector<ReplicatedStage> replicated_stages(const Problem& problem, const Placement& placement) {
  std::vector<ReplicatedStage> stages;
  IdVector<DeviceId, std::size_t> stage_of(problem.cluster.num_devices());
  try {
    for (auto& devices : replicas_of(problem, device_classes(problem), placement).parts) {
      const auto time = placement.facts.find(fmt::format("stage_{}_us", stages.size()));
      stage_of[devices.front()] = stages.size();
      stages.push_back({.ops = {},
                        .devices = std::move(devices),
                        .time_us = time == placement.facts.end() ? 0.0 : time->second});
    }
  } catch (const InputError&) {  // an op was moved
    return {};
  }
  if (stages.empty()) return {};
  for (const OpId v : problem.graph.ops()) {
    ReplicatedStage& stage = stages[stage_of[placement.device[v]]];
    stage.ops.push_back(v);
    stage.weights += problem.graph.op(v).persistent;
  }
  return stages;
}

namespace {

class ReplicatedWriter : ProgramWriter<LoadProgram> {
 public:
  ReplicatedWriter(const Problem& problem, const Bundles& bundles,
                   const std::vector<DeviceClass>& classes, const std::vector<DeviceShape>& shapes,
                   const std::vector<DeviceClass>& kinds, Duration below, Duration step)
      : ProgramWriter(bundles, kinds, below, step),
        problem_(problem),
        real_(classes),
        shapes_(shapes) {}

  LoadProgram write(bool contiguous) {
    load_ = lp().add_column(0.0, scaled(most_));
    add_assignment();
    devices_of_.resize(real_.size());
    for (std::size_t s = 0; s < shapes_.size(); ++s) {
      for (const DeviceId part : classes_[s].devices) {
        add_use(s, part);
        add_load(s, part);
        if (contiguous) forbid_return(problem_.graph, part);
      }
      order_equal(s);
    }
    for (std::size_t c = 0; c < real_.size(); ++c)
      at_most(devices_of_[c], static_cast<double>(real_[c].devices.size()));
    minimise(load_);
    return std::move(program_);
  }

 private:
  /// The work of one replica if `time` of work on one device is divided among the replicas.
  double shared(std::size_t s, Duration time) const {
    return scaled(time) / static_cast<double>(shapes_[s].replicas);
  }
  double exchange(std::size_t s, BundleId b) const {
    return shapes_[s].exchange * static_cast<double>(bundles_.weights(b).count) * program_.unit;
  }
  /// An exchange is rounded to whole nanoseconds, so it may be counted half of one too long here.
  double rounding(std::size_t s) const {
    return shapes_[s].exchange > 0.0 ? 0.5 * program_.unit : 0.0;
  }

  bool fits(BundleId b, std::size_t s) const {
    const auto time = bundles_.time(b, shapes_[s].cls);
    return time && bundles_.weights(b) <= classes_[s].memory &&
           shared(s, *time) + exchange(s, b) <= scaled(most_) + rounding(s);
  }

  void add_assignment() {
    for (const BundleId b : bundles_.bundles()) {
      Row row;
      program_.on.push_back({});
      for (std::size_t s = 0; s < shapes_.size(); ++s) {
        for (std::size_t i = 0; i < classes_[s].devices.size(); ++i) {
          const std::uint32_t column = add_whole(fits(b, s) ? 1.0 : 0.0);
          program_.on[b].push_back({column});
          row.push_back({column, 1.0});
        }
      }
      lp().add_row(1.0, row, 1.0);
    }
  }

  /// A column that is 1 if the part has a bundle: then it takes its replicas' devices.
  void add_use(std::size_t s, DeviceId part) {
    const std::uint32_t used = lp().add_column(0.0, 1.0);
    for (const BundleId b : bundles_.bundles())
      if (fits(b, s)) at_most({{x(b, part), 1.0}, {used, -1.0}}, 0.0);
    devices_of_[shapes_[s].cls].push_back({used, static_cast<double>(shapes_[s].replicas)});
  }

  void add_load(std::size_t s, DeviceId part) {
    Row load;
    for (const BundleId b : bundles_.bundles()) {
      if (!fits(b, s)) continue;
      const double time = shared(s, *bundles_.time(b, shapes_[s].cls)) + exchange(s, b);
      if (time > 0.0) load.push_back({x(b, part), time});
    }
    if (!classes_[s].core) {
      for (const Bundles::Net& net : bundles_.nets()) {
        if (net.time == Duration{}) continue;
        load.push_back({add_cut(net, part), shared(s, net.time)});
      }
    }
    load.push_back({load_, -1.0});
    at_most(load, rounding(s));
    limit_weights(s, part, [&](BundleId b) { return fits(b, s); });
  }

  const Problem& problem_;
  const std::vector<DeviceClass>& real_;
  const std::vector<DeviceShape>& shapes_;  // of classes_, which are kinds of parts
  std::uint32_t load_ = 0;
  std::vector<Row> devices_of_;  // [real classes] devices that its parts take
};

}  // namespace

ReplicatedParts::ReplicatedParts(const Problem& problem, const Bundles& bundles,
                                 const std::vector<DeviceClass>& classes,
                                 const Replication& replication)
    : problem_(problem),
      bundles_(bundles),
      classes_(classes),
      shapes_(shapes_of(classes, replication)) {
  std::uint32_t next = 0;
  for (const DeviceShape& shape : shapes_) {
    const DeviceClass& cls = classes[shape.cls];
    DeviceClass& kind = kinds_.emplace_back();
    kind.core = cls.core;
    kind.memory = cls.memory;
    for (std::size_t i = 0; i < cls.devices.size() / shape.replicas; ++i)
      kind.devices.push_back(DeviceId{next++});
  }
}

LoadProgram ReplicatedParts::program(Duration below, Duration step, bool contiguous) const {
  return ReplicatedWriter(problem_, bundles_, classes_, shapes_, kinds_, below, step)
      .write(contiguous);
}

std::optional<Pipeline> ReplicatedParts::stages_of(
    const IdVector<BundleId, DeviceId>& part_of) const {
  Pipeline result{.device = IdVector<OpId, DeviceId>(problem_.graph.num_ops())};
  IdVector<BundleId, DeviceId> device(bundles_.size());
  std::vector<std::size_t> taken(classes_.size(), 0);
  PipelinePart part(bundles_, classes_, shapes_, no_load);
  for (std::size_t s = 0; s < shapes_.size(); ++s) {
    for (const DeviceId number : kinds_[s].devices) {
      std::vector<BundleId> here;
      for (const BundleId b : bundles_.bundles())
        if (part_of[b] == number) here.push_back(b);
      if (here.empty()) continue;
      for (const BundleId b : here) part.add(b);
      const std::int64_t load = part.load(shapes_[s]);
      for (const BundleId b : here) part.remove(b);
      const auto& devices = classes_[shapes_[s].cls].devices;
      std::size_t& first = taken[shapes_[s].cls];
      const std::size_t end = first + shapes_[s].replicas;
      if (load == no_load || end > devices.size()) return std::nullopt;
      PipelineStage stage{.devices = {}, .load = Duration{load}};
      for (; first < end; ++first) stage.devices.push_back(devices[first]);
      for (const BundleId b : here) device[b] = stage.devices.front();
      result.load = std::max(result.load, stage.load);
      result.stages.push_back(std::move(stage));
    }
  }
  for (const OpId v : problem_.graph.ops()) result.device[v] = device[bundles_.of(v)];
  std::ranges::sort(result.stages, {}, [](const PipelineStage& s) { return s.devices.front(); });
  return result;
}

Pipeline stages_without_replicas(const Problem& problem, const Placement& placement) {
  Pipeline result{.device = placement.device};
  const auto loads = device_loads(problem, placement);
  IdVector<DeviceId, char> used(problem.cluster.num_devices(), 0);
  for (const DeviceId d : placement.device) used[d] = 1;
  for (const DeviceId d : problem.cluster.devices()) {
    if (used[d] == 0) continue;
    result.stages.push_back({.devices = {d}, .load = loads[d].total()});
    result.load = std::max(result.load, loads[d].total());
  }
  return result;
}

}  // namespace baechi::exact
