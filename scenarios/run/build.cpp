#include "scenarios/run/build.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "sim/collectives/collective_models.h"
#include "sim/number_format.h"
#include "sim/processor_time.h"
#include "sim/transform/what_if/what_if.h"
#include "traces/format/compressed_file.h"
#include "traces/generate/gguf.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

bool has_times(const OpGraph& graph) {
  return !graph.device_kinds().empty() || std::ranges::any_of(graph.ops(), [&](OpId v) {
    return graph.op(v).compute != Duration::zero();
  });
}

/// The model that times the ops of known work on `device`: of its type, or the default if it has
/// none. Null: no table has its type.
const DeviceModel* model_of(const DeviceChoice& device) {
  return device.kind.empty() ? built_in_devices().devices.at(default_device).get()
                             : device.model.get();
}

/// The devices of `cluster` as visible to transforms.
what_if::StepDevices devices_of(const ClusterChoice& cluster) {
  what_if::StepDevices known;
  known.timed = [cluster](const OpGraph& graph) {
    return *timed(std::make_shared<const OpGraph>(graph), cluster);
  };
  for (const DeviceChoice& d : cluster.devices) {
    std::shared_ptr<const DeviceModel> model = d.model;
    if (d.kind.empty()) model = built_in_devices().devices.at(default_device);
    if (model != nullptr && std::ranges::find(known.models, model) == known.models.end())
      known.models.push_back(std::move(model));
  }
  return known;
}

/// The transform of `choice`, bound to the devices of `cluster` if it needs them.
std::shared_ptr<const Transform> on_cluster(const TransformChoice& choice,
                                            const ClusterChoice& cluster) {
  Duration host_op{};  // the longest
  const what_if::StepDevices known = devices_of(cluster);
  for (const auto& model : known.models) host_op = std::max(host_op, model->host_op);
  if (auto launching = host_op > Duration{} ? choice.transform->launching(host_op) : nullptr)
    return launching;
  const auto* const rules = dynamic_cast<const WhatIfRules*>(choice.transform.get());
  return rules == nullptr ? choice.transform : rules->on(known);
}

/// Throws InputError if one of the transforms `before` divides the result of `choice`, if both
/// simulate replicas, or if `choice` adds the same ops to the placed step again.
void check_order(const TransformChoice& choice, std::span<const TransformChoice> before) {
  for (const TransformChoice& earlier : before)
    if (choice.transform->devices() > 1 && earlier.transform->devices() > 1)
      throw InputError(
          fmt::format("{}transforms: '{}' and '{}' both simulate all replicas, or homes, on "
                      "devices of their own: one of them can",
                      at(choice.where), earlier.name, choice.name));
  for (const TransformChoice& earlier : before)
    if (choice.use == TransformUse::placed && choice.name == earlier.name &&
        choice.name != "what_if")
      throw InputError(
          fmt::format("{}transforms: '{}' is listed twice", at(choice.where), choice.name));
  for (const TransformEntry& entry : transforms()) {
    if (entry.name != choice.name && !choice.transform->applies(entry.name)) continue;
    for (const TransformChoice& earlier : before)
      if (earlier.transform->must_follow(entry.name))
        throw InputError(
            fmt::format("{}transforms: '{}' must not follow '{}', which changes its result",
                        at(choice.where), entry.name, earlier.name));
  }
}

/// Throws InputError if `cluster` has fewer devices than the step of `choice` needs.
void check_devices(const TransformChoice& choice, const ClusterChoice& cluster) {
  std::size_t devices = 0;
  for (const DeviceChoice& group : cluster.devices) devices += group.count;
  if (const std::int64_t needed = choice.transform->devices();
      needed > static_cast<std::int64_t>(devices))
    throw InputError(
        fmt::format("{}transforms: '{}' needs {} devices, one for each replica, and the cluster "
                    "has {} (simulate: one needs those of one replica)",
                    at(choice.where), choice.name, needed, devices));
}

bool computes(const DeviceChoice& d) {
  Device device;
  device.kind = d.kind;
  return device.computes();
}

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
  if (!std::ranges::is_partitioned(choice.devices, computes))
    mistakes.add("cluster: hosts and disks must be listed behind the devices that compute");
  if (!choice.nodes.empty() && !std::ranges::all_of(choice.devices, computes))
    mistakes.add("cluster: hosts and disks cannot be combined with nodes");
  if (count == 0 || !computes(choice.devices.front()))
    mistakes.add("cluster: it needs at least one device that computes");
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

std::string give_times(Trace& trace) {
  if (!trace.graph.has_work() || has_times(trace.graph) || trace.times_elsewhere) return "";
  const DeviceModel& model = *built_in_devices().devices.at(default_device);
  try {
    trace.graph = trace.graph.with_times(model.name, roofline_times(trace.graph, model));
  } catch (const InputError& unknown) {  // a number format that it has no peak of
    trace.notes.push_back(fmt::format("no times: {}", unknown.what()));
    return "";
  }
  return model.name;
}

OpGraph on_kind(const OpGraph& graph, const std::string& kind) {
  const auto& own = graph.device_kinds();
  const auto& known = built_in_devices().devices;
  const auto model = known.find(kind);
  const auto place = std::ranges::find(own, kind);
  if (place == own.end() && (!graph.has_work() || model == known.end())) {
    if (graph.has_work())
      throw InputError(fmt::format(
          "--kind: {}{}", no_such_device(kind, known),
          own.empty() ? "" : fmt::format(", and the trace has {}", fmt::join(own, ", "))));
    throw InputError(
        own.empty() ? fmt::format("--kind: '{}': the trace has one time per op, for every kind, "
                                  "and does not state the ops' work, of which others would follow",
                                  kind)
                    : fmt::format("--kind: {}", not_one_of(kind, own)));
  }
  if (place == own.end())
    return graph.with_times(own.empty() ? kind : own.front(),
                            roofline_times(graph, *model->second));
  IdVector<OpId, Duration> times;
  for (const OpId v : graph.ops())
    times.push_back(
        graph.compute(v, static_cast<std::size_t>(place - own.begin())).value_or(Duration::zero()));
  return graph.with_times(own.front(), times);
}

void require_times(const Trace& trace, const ClusterChoice& cluster, std::string_view source) {
  if (trace.graph.num_ops() == 0)
    throw InputError(fmt::format("{}: the graph has no ops: there is nothing to place", source));
  trace.untimed.refuse(source, trace.graph.num_ops());
  if (has_times(trace.graph) || cluster.calibration.measured) return;
  if (std::ranges::all_of(trace.graph.ops(),
                          [&](OpId v) { return trace.graph.collective_of(v) != no_collective; }))
    return;  // the cluster's model times collectives
  const std::string_view hint =
      trace.times_elsewhere ? " (option kineto of the importer pytorch: the file with its times)"
                            : "";
  if (!trace.graph.has_work())
    throw InputError(
        fmt::format("{}: no op has a time, and none gives its work, from which a time could be "
                    "computed: give measured times{}",
                    source, hint));
  for (const DeviceChoice& d : cluster.devices) {
    if (d.model != nullptr || (d.kind.empty() && !trace.times_elsewhere) || !computes(d)) continue;
    throw InputError(
        d.kind.empty() ? fmt::format("{}: no op has a time: give measured times{}, or the type of "
                                     "the devices (--kind, 'kind' in a scenario) for times by its "
                                     "roofline, such as h100 ('baechi list devices' lists all)",
                                     source, hint)
                       : fmt::format("{}: no op has a time, and {}", source,
                                     no_such_device(d.kind, built_in_devices().devices)));
  }
}

std::shared_ptr<const OpGraph> timed(std::shared_ptr<const OpGraph> graph,
                                     const ClusterChoice& cluster) {
  for (const DeviceChoice& d : cluster.devices) {
    const auto& kinds = graph->device_kinds();
    const DeviceModel* model = has_times(*graph) ? d.model.get() : model_of(d);
    if (model == nullptr || !graph->has_work() ||
        std::ranges::find(kinds, model->name) != kinds.end())
      continue;
    graph = std::make_shared<const OpGraph>(
        graph->with_times(model->name, roofline_times(*graph, *model)));
  }
  return graph;
}

namespace {

/// The graph after a transform, whose mistakes begin with the place of `choice`.
Transformed applied(const TransformChoice& choice, const Transform& transform,
                    const OpGraph& graph) {
  try {
    return transform.apply(graph);
  } catch (const InputError& e) {
    const std::string& where = choice.where;
    if (std::string_view(e.what()).starts_with(where.substr(0, where.find(':')))) throw;
    throw InputError(at(where) + e.what());
  }
}

}  // namespace

void take_own_types(ClusterChoice& cluster, const OpGraph& graph) {
  const auto& own = graph.device_kinds();
  for (DeviceChoice& d : cluster.devices) {
    if (std::ranges::find(own, d.typed) == own.end()) continue;
    d.kind = d.typed;
    d.model = nullptr;
  }
}

PreparedGraph prepare(std::shared_ptr<const OpGraph> graph, const ClusterChoice& cluster,
                      std::span<const TransformChoice> choices) {
  PreparedGraph prepared;
  const bool assumes =
      graph->has_work() && !has_times(*graph) &&
      std::ranges::any_of(cluster.devices, [](const DeviceChoice& d) { return d.kind.empty(); });
  if (assumes) prepared.assumed_kind = default_device;
  prepared.step = std::move(graph);
  const auto start = std::chrono::steady_clock::now();
  ProcessorTime processor;
  std::optional<TaskPart> transforms(&processor);
  std::string_view for_placing;  // the first transform that is
  for (const TransformChoice& choice : choices) {
    if (choice.use == TransformUse::placing && for_placing.empty()) for_placing = choice.name;
    if (choice.use == TransformUse::placing) continue;
    if (choice.use == TransformUse::model && !for_placing.empty())
      throw InputError(fmt::format("{}transforms: '{}' changes the step, so it must precede '{}'",
                                   at(choice.where), choice.name, for_placing));
    check_order(choice, choices.first(static_cast<std::size_t>(&choice - choices.data())));
    check_devices(choice, cluster);
    Transformed made = applied(choice, *on_cluster(choice, cluster), *prepared.step);
    prepared.batches *= made.batches;
    prepared.step = std::make_shared<const OpGraph>(std::move(made.graph));
  }
  // Transforms of the model may change the work of ops, which determines their times.
  prepared.step = timed(std::move(prepared.step), cluster);
  if (prepared.step->device_kinds().empty() && !cluster.calibration.measured)
    for (const DeviceChoice& d : cluster.devices)
      if (prepared.kind_without_times.empty() && computes(d)) prepared.kind_without_times = d.kind;
  std::optional<Transformed> placed;
  for (const TransformChoice& choice : choices) {
    if (choice.use == TransformUse::placed && !std::ranges::all_of(cluster.devices, computes))
      throw InputError(fmt::format(
          "{}transforms: '{}' changes the placed step, where no weights can wait on a host or disk",
          at(choice.where), choice.name));
    if (choice.use == TransformUse::placed)
      prepared.after_placing.push_back(on_cluster(choice, cluster));
    if (choice.use != TransformUse::placing) continue;
    placed = placed ? then(std::move(*placed), *choice.transform)
                    : applied(choice, *choice.transform, *prepared.step);
  }
  prepared.placed = prepared.step;
  if (placed) {
    prepared.placed = std::make_shared<const OpGraph>(std::move(placed->graph));
    prepared.mapped_op = std::move(placed->mapped_op);
    prepared.needs = placed->needs;
    prepared.needs_why = std::move(placed->needs_why);
  }
  prepared.transforming = std::chrono::steady_clock::now() - start;
  transforms.reset();
  prepared.transforming_processor = processor.used();
  return prepared;
}

OpGraph with_missing_times(OpGraph graph, const ClusterChoice& cluster) {
  for (const DeviceChoice& d : cluster.devices) {
    const auto& kinds = graph.device_kinds();
    const DeviceModel* model = model_of(d);
    const auto known = std::ranges::find(kinds, model == nullptr ? "" : model->name);
    if (known == kinds.end()) continue;
    const auto kind = static_cast<std::size_t>(known - kinds.begin());
    const auto missing = [&](OpId v) {
      return !graph.compute(v, kind) && !graph.kernels(v).empty();
    };
    if (std::ranges::none_of(graph.ops(), missing)) continue;
    IdVector<OpId, Duration> times = roofline_times(graph, *model);
    for (const OpId v : graph.ops()) times[v] = graph.compute(v, kind).value_or(times[v]);
    graph = graph.with_times(model->name, times);
  }
  return graph;
}

std::optional<PlacedStep> after_placing(const PreparedGraph& graph, const Placement& placement) {
  if (graph.after_placing.empty()) return std::nullopt;
  PlacedStep step{*graph.step, placement.device};
  for (const auto& transform : graph.after_placing)
    step = transform->after_placing(step.graph, step.device);
  return step;
}

void check_engine(const PreparedGraph& graph, const Cluster& cluster, const EngineOptions& engine) {
  baechi::check_engine(cluster, engine);
  if (engine.semantics == Semantics::event) return;
  // Lanes and collectives do not depend on the placement.
  const auto step =
      after_placing(graph, {.device = IdVector<OpId, DeviceId>(graph.step->num_ops(), DeviceId{})});
  if ((step ? step->graph : *graph.step).plain()) return;
  throw InputError(
      fmt::format("semantics baechi does not support lanes and collectives, and {} has them "
                  "(semantics event does)",
                  graph.step->plain() ? "the step that the transforms make" : "the graph"));
}

Placement expand(Placement placement, const PreparedGraph& graph) {
  if (graph.mapped_op.empty()) return placement;
  Placement expanded{.facts = std::move(placement.facts),
                     .detail = std::move(placement.detail),
                     .placed_by = std::move(placement.placed_by),
                     .own_placing = placement.own_placing,
                     .prefetch = placement.prefetch};
  expanded.device.reserve(graph.step->num_ops());
  for (const OpId v : graph.step->ops()) {
    expanded.device.push_back(placement.device[graph.mapped_op[v]]);
    if (!placement.priority.empty())
      expanded.priority.push_back(placement.priority[graph.mapped_op[v]]);
    if (!placement.home.empty()) expanded.home.push_back(placement.home[graph.mapped_op[v]]);
  }
  return expanded;
}

void require_needs(const PreparedGraph& graph, const Cluster& cluster) {
  Bytes largest;
  for (const DeviceId d : cluster.devices()) largest = std::max(largest, cluster.device(d).memory);
  if (graph.needs > largest)
    throw InfeasibleError(
        fmt::format("{} (the largest device has {})", graph.needs_why, to_text(largest)));
}

Trace load_generated(const Choice& choice) {
  Trace trace = generate_trace(choice.name, choice.options, choice.where);
  if (trace.name.empty()) trace.name = choice.name;
  return trace;
}

namespace {

bool is_generator(const std::string& name) {
  const std::vector<std::string> known = entry_names(generators());
  return std::ranges::find(known, name) != known.end();
}

/// Takes the format of the weights out of a name: the end of Ollama's tags, what stands behind the
/// ':' of a repository, and endings such as -AWQ.
void take_weights(PublishedModel& model) {
  const bool repository = model.name.find('/') != std::string::npos;
  const std::size_t colon = model.name.find(':'), last = repository ? colon : model.name.rfind('-');
  if (!repository && colon != std::string::npos) model.ollama = model.name;
  std::string format;
  if (last != std::string::npos && last >= colon) format = lower(model.name.substr(last + 1));
  if (find_weight_format(format)) model.name.resize(last);
  if (const std::string ending = repository ? generate::take_format(model.name) : "";
      ending == "gguf")
    model.repository.clear();
  else if (!ending.empty())
    format = ending;
  if (format != "fp16" && find_weight_format(format) &&
      model.options.find("weights=") == std::string::npos)
    model.options += fmt::format("{}weights={}", model.options.empty() ? "" : ",", format);
}

}  // namespace

std::string PublishedModel::generator() const {
  return fmt::format("{}:config={}{}{}", config.generator, path, options.empty() ? "" : ",",
                     options);
}

std::optional<PublishedModel> published_model(const std::string& text, bool generators) {
  if (text.ends_with(':')) return published_model(text.substr(0, text.size() - 1));
  const std::size_t equals = text.find('=');
  const std::size_t colon = equals == text.npos ? text.npos : text.rfind(':', equals);
  PublishedModel model{.path = with_data_folder(text.substr(0, colon)),
                       .name = text.substr(0, colon),
                       .options = colon == text.npos ? "" : text.substr(colon + 1)};
  if (is_file(model.path + "/config.json")) model.path += "/config.json";
  const std::filesystem::path whole = std::filesystem::absolute(model.path);
  const bool header = generate::is_gguf(model.path);
  if (header || whole.filename() == "config.json") {
    model.name = header ? whole.stem() : whole.parent_path().filename();
    model.repository = header ? model.path : whole.parent_path().string();
  } else {
    // A path that is there, or has two folders, is not taken for a name.
    if (std::filesystem::exists(model.path) || std::ranges::count(model.name, '/') > 1 ||
        (is_generator(model.name) && (generators || colon != text.npos)))
      return std::nullopt;
    model.repository = model.name;
    take_weights(model);
    const auto known = generate::known_model(model.name);
    if (!known) return std::nullopt;
    if (const std::string other = generate::other_release(model.name, *known); !other.empty())
      model.not_known =
          fmt::format("{}: the shapes are those of {}", other, generate::hugging_face_id(*known));
    if (model.repository.find('/') == std::string::npos)
      model.repository = generate::hugging_face_id(*known);
    model.path = model.name = *known;
  }
  model.config = generate::read_published_file(model.path);
  if (!model.not_known.empty()) model.config.not_modelled.push_back(model.not_known);
  return model;
}

void require_generator(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  if (is_generator(name)) return;
  const std::string ending = std::filesystem::path(name).extension();
  if (ending.size() > 1 && ending.find_first_of("0123456789-_") == std::string::npos)
    throw InputError(fmt::format("{}: no such file", name));
  std::vector<std::string> known = entry_names(generators()), longer;
  for (const generate::KnownModel& model : generate::known_models()) {
    known.push_back(model.name);
    if (model.name.starts_with(name)) longer.push_back(model.name);
  }
  throw InputError(
      fmt::format("{}: neither a file, a generator nor a known model{} ('baechi list generators' "
                  "and 'baechi list models' list these)",
                  text,
                  longer.empty() ? did_you_mean(name, known)
                                 : fmt::format(" (did you mean {}?)", fmt::join(longer, ", "))));
}

std::optional<Trace> load_generator_words(const std::string& text) {
  if (const auto model = published_model(text)) {
    Choice choice = parse_choice(model->generator(), text);
    Options asked = choice.options;  // raw() declares what a generator may have to refuse
    const bool quantized = generate::is_gguf(model->path) || asked.raw("weights", "") != nullptr;
    if (quantized && asked.raw("pass", "") == nullptr) {
      // Its weights are to write text with.
      const auto trained = model->config.values.find("max_position_embeddings");
      const auto tokens = trained == model->config.values.end()
                              ? std::nullopt
                              : parse_number<std::int64_t>(trained->second);
      choice.options.set("pass", {"decode", text, {}});
      choice.options.set(
          "context",
          {std::to_string(std::clamp<std::int64_t>(tokens.value_or(8192), 1, 8192) - 1), text, {}});
    }
    Trace trace = load_generated(choice);
    trace.name = model->name;
    if (!model->not_known.empty()) trace.notes.push_back("warning: " + model->not_known);
    return trace;
  }
  const std::string name = text.substr(0, text.find(':'));
  const std::filesystem::file_status found = std::filesystem::status(with_data_folder(text));
  if (name.find_first_of("/.") != name.npos ||
      (std::filesystem::exists(found) &&
       !(is_generator(name) && std::filesystem::is_directory(found))))
    return std::nullopt;
  require_generator(text);
  return load_generated(parse_choice(text, text));
}

Trace load_graph(const GraphChoice& choice) {
  if (choice.generate) return load_generated(*choice.generate);
  Trace trace = read_trace(choice.file, choice.importer, choice.import_options);
  if (trace.name.empty()) trace.name = std::filesystem::path(choice.file).stem().string();
  return trace;
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
