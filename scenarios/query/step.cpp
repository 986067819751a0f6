#include <cmath>

#include "scenarios/query/query.h"
#include "scenarios/read/sections.h"
#include "scenarios/run/build.h"
#include "sim/pipeline/pipeline.h"
#include "sim/transform/graph_copy.h"
#include "traces/generator.h"

namespace baechi::query {
namespace {

/// Tensor cores read images channels last. A convolution of images in another order copies its
/// inputs and outputs: each is read and written once more.
OpGraph with_copies(const OpGraph& graph) {
  GraphCopy copy(graph);
  IdVector<TensorId, TensorId> tensors(graph.num_tensors());
  for (const OpId v : graph.ops()) {
    const OpId made = copy.add(v, copy.spec(v));
    copy.add_kernels(v, made);
    const std::string_view kind = graph.kind(v);
    const bool convolves = kind.starts_with("Conv2d") || kind.starts_with("GroupedConv2d");
    for (const OpWork& work : graph.kernels(v))
      if (convolves && work.matrix.kind != MatrixKind::none && work.precision == Precision::fp16)
        copy.builder().add_kernel(made, {.traffic = 2 * work.traffic, .precision = work.precision});
    for (const TensorId t : graph.outputs(v))
      if (!graph.tensor(t).control) tensors[t] = copy.add_tensor(t, made, graph.tensor(t).size);
  }
  copy.add_edges(tensors);
  return std::move(copy).built().graph;
}

Options::Value raw_of(Options& o, const std::string& key, std::string_view help) {
  const Options::Value* value = o.raw(key, help);
  return value != nullptr ? *value : Options::Value{};
}

struct OpTimes {
  IdVector<OpId, Duration> times;
  Duration sum{};
};

/// The device's times, all multiplied by `scale`, or so that their sum is about `sum`.
OpTimes times_of(const OpGraph& graph, const DeviceModel& device, double scale, Duration sum) {
  OpTimes all{roofline_times(graph, device)};
  for (const Duration time : all.times) all.sum += time;
  if (sum > Duration{})
    scale = static_cast<double>(sum.count()) / static_cast<double>(all.sum.count());
  if (scale != 1.0)
    for (Duration& time : all.times)
      time = Duration{std::llround(scale * static_cast<double>(time.count()))};
  return all;
}

/// Scales the times of each pass to its sum.
void scale_passes(const OpGraph& graph, const std::vector<Duration>& sums, OpTimes& all) {
  std::vector<double> now(sums.size(), 0.0);
  for (const OpId v : graph.ops()) {
    const std::size_t pass = graph.micro_batch(v).number;
    if (pass >= sums.size()) throw InputError("sums: fewer than passes");
    now[pass] += static_cast<double>(all.times[v].count());
  }
  for (const OpId v : graph.ops()) {
    const std::size_t pass = graph.micro_batch(v).number;
    all.times[v] = Duration{std::llround(static_cast<double>(all.times[v].count()) *
                                         static_cast<double>(sums[pass].count()) / now[pass])};
  }
}

/// The kernels of each op: [type of the op, dtype, flops, bytes].
Json kernels_of(const OpGraph& graph) {
  Json ops = Json::array();
  for (const OpId v : graph.ops()) {
    Json kernels = Json::array();
    for (const OpWork& work : graph.kernels(v))
      kernels.push_back({graph.kind(v), to_text(work.precision), work.flops, work.traffic.count});
    ops.push_back(std::move(kernels));
  }
  return {{"ops", std::move(ops)}};
}

/// The device of each op: devices but the first begin at the first ops that are called as in
/// `starts`, or are in such a scope. Backward and update ops follow their forward ops, and ops of
/// later passes those of the first. [num_ops]
IdVector<OpId, DeviceId> devices_of(const OpGraph& graph, const std::vector<std::string>& starts) {
  std::vector<OpId> first;
  for (const std::string& start : starts) {
    const auto ops = graph.ops();
    const auto found = std::ranges::find_if(ops, [&](OpId v) {
      const std::string_view name = graph.name(v);
      return name.starts_with(start) && (name.size() == start.size() || name[start.size()] == '/');
    });
    if (found == ops.end()) throw InputError(fmt::format("starts: no op '{}'", start));
    first.push_back(*found);
  }
  IdVector<OpId, DeviceId> device(graph.num_ops(), DeviceId{0});
  for (const OpId v : graph.ops()) {
    OpId of = graph.micro_batch(v).first;
    if (graph.op(of).forward != no_op) of = graph.op(of).forward;
    if (graph.op(of).phase == Phase::update) {  // where its gradients are
      device[v] = device[graph.edge(*graph.in_edges(of).begin()).src];
      continue;
    }
    const auto before = std::ranges::count_if(first, [&](OpId start) { return start <= of; });
    device[v] = DeviceId{static_cast<std::uint32_t>(before)};
  }
  return device;
}

/// The graph of a generator; with a `prompt` of so many tokens, its passes of `most` tokens.
OpGraph graph_of(const std::string& generator, Options options, std::int64_t prompt,
                 std::int64_t most, std::size_t in_flight) {
  if (prompt == 0) return generate_trace(generator, std::move(options)).graph;
  std::vector<OpGraph> passes;
  options.set("cache", {std::to_string(prompt), ""});
  for (std::int64_t done = 0; done < prompt; done += most) {
    options.set("context", {std::to_string(done), ""});
    options.set("tokens", {std::to_string(std::min(most, prompt - done)), ""});
    passes.push_back(generate_trace(generator, options).graph);
  }
  return joined_passes(passes, in_flight);
}

}  // namespace

Json answer_step(Options& o) {
  const std::string generator = o.get("generator", "", "the model's");
  Options options(generator);
  for (const auto& [key, value] : raw_of(o, "options", "of the generator").children)
    options.set(key, value);
  const auto device = device_of(raw_of(o, "device", "a device type, or its numbers"), "device");
  const bool channels_first = o.get("channels_first", false, "order of images in 16 bits");
  const double scale = o.get("scale", 1.0, "factor of all ops' times", 0.0, 1e6);
  const bool kernels = o.get("kernels", false, "the ops' kernels, and no times");
  const Duration sum = o.get("sum", Duration{}, "ops' times are scaled to this sum");
  Mistakes mistakes;
  const std::vector<TransformChoice> transforms =
      read_transforms(raw_of(o, "transforms", "as in a scenario"), "", mistakes);
  const EngineOptions engine =
      read_engine(raw_of(o, "engine", "as in a scenario; memory has no limit"), mistakes);
  const Options::Value section = raw_of(o, "cluster", "as in a scenario [one device]");
  const bool alone = section.children.empty();
  const ClusterChoice choice =
      alone ? ClusterChoice{} : read_cluster(section, "", built_in_devices(), mistakes);
  const std::int64_t prompt =
      o.get("prompt", std::int64_t{0}, "tokens of a prompt, which passes read", 0, 1'000'000);
  const std::int64_t most = o.get("pass_tokens", std::int64_t{512}, "of a pass", 1);
  const auto in_flight = static_cast<std::size_t>(
      o.get("in_flight", std::int64_t{0}, "passes at a time; 0: all", 0, 1000));
  std::vector<std::string> starts;
  for (const auto& [key, name] :
       raw_of(o, "starts", "the first op, or scope, of each device but the first").children)
    starts.push_back(name.text);
  const std::string schedule = o.get("pipeline", "", "schedule of micro-batches that recomputes");
  const auto micro_batches = static_cast<std::size_t>(
      o.get("micro_batches", std::int64_t{1}, "of the pipeline", 1, 10'000));
  std::vector<Duration> sums;
  for (const auto& [key, time] :
       raw_of(o, "sums", "times to which the ops' of each pass are scaled").children)
    sums.push_back(parse_duration(time.text).value_or(Duration{}));
  if (prompt / most > 1000) o.mistake("prompt", "more than 1000 passes");
  mistakes.throw_if_any();
  o.finish();
  OpGraph graph = graph_of(generator, std::move(options), prompt, most, in_flight);
  for (const TransformChoice& t : transforms)
    if (t.use != TransformUse::placed) graph = t.transform->apply(graph).graph;
  if (channels_first) graph = with_copies(graph);
  if (kernels) return kernels_of(graph);
  double flops = 0.0;
  for (const OpId v : graph.ops())
    for (const OpWork& work : graph.kernels(v)) flops += static_cast<double>(work.flops);
  const Cluster cluster =
      alone ? Cluster::uniform(1, device->memory, Link{}) : make_cluster(choice);
  if (starts.size() >= cluster.num_devices())
    throw InputError(
        fmt::format("starts: {} devices of {}", starts.size() + 1, cluster.num_devices()));
  OpTimes times = times_of(graph, *device, scale, sum);
  if (!sums.empty()) scale_passes(graph, sums, times);
  PlacedStep step{graph.with_times(cluster.device(DeviceId{}).kind, times.times),
                  devices_of(graph, starts)};
  for (const TransformChoice& t : transforms)
    if (t.use == TransformUse::placed)
      step = t.transform->after_placing(t.transform->apply(step.graph).graph, step.device);
  const ProfiledCosts costs(step.graph, cluster);
  EngineOptions without_limit = engine;
  without_limit.enforce_memory = false;
  const Problem problem{step.graph, cluster, costs, without_limit};
  if (!schedule.empty()) {
    if (pipeline::find_schedule(schedule) == nullptr)
      throw InputError(fmt::format("pipeline: no schedule '{}'", schedule));
    const auto run = pipeline::simulate_pipeline(problem, {.device = step.device},
                                                 {.schedule = schedule,
                                                  .micro_batches = micro_batches,
                                                  .recompute = true,
                                                  .keep_last = true});
    return {{"step_time_us", to_us(run.makespan)}};
  }
  const StepResult result = simulate(problem, {.device = step.device});
  Json memory = Json::array();
  for (const DeviceId d : cluster.devices()) {
    Bytes weights, cache;
    for (const OpId v : step.graph.ops())
      if (step.device[v] == d) {
        weights += step.graph.op(v).persistent - step.graph.cache(v);
        cache += step.graph.cache(v);
      }
    memory.push_back({weights.count, cache.count, result.devices[d].peak.count});
  }
  return {{"step_time_us", to_us(result.makespan)},
          {"memory", std::move(memory)},
          {"peak_bytes", result.devices[DeviceId{0}].peak.count},
          {"flops", flops},
          {"device_times_us", to_us(times.sum)},
          {"host_op_us", to_us(device->host_op)},
          {"host_step_us", to_us(device->host_step)}};
}

}  // namespace baechi::query
