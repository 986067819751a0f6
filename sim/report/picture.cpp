#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>

#include "sim/report/timeline.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// Work and time of one op or of several.
struct Load {
  double flops = 0.0, traffic = 0.0;
  Duration time{};

  void add(const Load& other) {
    flops += other.flops;
    traffic += other.traffic;
    time += other.time;
  }
  bool drawn() const { return flops > 0.0 && traffic > 0.0 && time > Duration::zero(); }
};

struct RanOp {
  OpId op{};
  DeviceId device{};
  Load load;
};

/// Those of `all` that are drawn(), the longest first, at most `most`.
template <class T, class LoadOf>
std::vector<T> longest(std::vector<T> all, std::size_t most, LoadOf load) {
  std::erase_if(all, [&](const T& one) { return !load(one).drawn(); });
  std::ranges::stable_sort(all, std::greater{}, [&](const T& one) { return load(one).time; });
  if (all.size() > most) all.resize(most);
  return all;
}

std::vector<RanOp> ops_of(const OpGraph& graph, const Timeline& timeline) {
  std::vector<RanOp> ran;
  for (const Timeline::OpSlice& slice : timeline.ops()) {
    RanOp op{.op = slice.op, .device = slice.device, .load = {.time = slice.end - slice.start}};
    for (const OpWork& kernel : graph.kernels(slice.op)) {
      op.load.flops += static_cast<double>(kernel.flops);
      op.load.traffic += static_cast<double>(kernel.traffic.count);
    }
    ran.push_back(op);
  }
  std::ranges::stable_sort(ran, {}, &RanOp::op);
  return ran;
}

Json roofs_of(const OpGraph& graph, const std::vector<RanOp>& ran,
              std::span<const DeviceModel* const> models) {
  std::map<std::string, std::set<Precision>> formats;  // by device type
  std::map<std::string, const DeviceModel*> known;
  for (const RanOp& op : ran) {
    const DeviceModel* model = models[index(op.device)];
    if (model == nullptr || !op.load.drawn()) continue;
    known.emplace(model->name, model);
    for (const OpWork& kernel : graph.kernels(op.op))
      if (kernel.flops > 0) formats[model->name].insert(kernel.precision);
  }
  Json roofs = Json::array();
  for (const auto& [name, model] : known) {
    Json peaks = Json::object();
    for (const Precision p : formats[name])
      peaks[std::string(to_text(p))] = model->at(p).peak.flop_per_second;
    roofs.push_back({{"device", name},
                     {"bandwidth", model->bandwidth.bytes_per_second},
                     {"peaks", std::move(peaks)}});
  }
  return roofs;
}

Json numbers(std::string_view name, const Load& load) {
  return Json::array({name, load.flops, load.traffic, load.time.count()});
}

/// A slice of a track, or several merged ones.
struct Slice {
  TimePoint start{}, end{};
  std::uint32_t what = 0, a = 0, b = 0;  // of the longest one: op; phase and group, or peer
  Duration longest{};
  std::size_t count = 1;
};

/// Slices in order of start. Slices within `pixel` of each other are merged; if `touching`, so are
/// slices that overlap, however long they are.
std::vector<Slice> merged(const std::vector<Slice>& slices, Duration pixel, bool touching) {
  std::vector<Slice> result;
  for (const Slice& s : slices) {
    if (!result.empty()) {
      Slice& last = result.back();
      const bool both_short = s.longest < pixel && last.longest < pixel;
      if ((both_short && s.end - last.start <= pixel) || (touching && s.start < last.end)) {
        last.end = std::max(last.end, s.end);
        last.count += s.count;
        if (s.longest > last.longest) {
          last.longest = s.longest;
          last.what = s.what;
          last.a = s.a;
          last.b = s.b;
        }
        continue;
      }
    }
    result.push_back(s);
  }
  return result;
}

/// Merges to at most about `most` slices with growing pixels; finally merges all overlapping
/// slices.
std::vector<Slice> at_most(std::vector<Slice> slices, std::size_t most, Duration step) {
  std::ranges::stable_sort(slices, {}, [](const Slice& s) { return std::pair(s.start, s.end); });
  if (slices.size() <= most) return slices;
  for (std::int64_t parts = 4096; parts >= 64; parts /= 2) {
    std::vector<Slice> fewer = merged(slices, step / parts, false);
    if (fewer.size() <= most) return fewer;
  }
  return merged(slices, step / 256, true);
}

struct Sample {
  TimePoint at{};
  MemoryUse use{};
};

/// Keeps the first sample, and from each of `bins` equal intervals the largest and the last one.
std::vector<Sample> thinned(const std::vector<Sample>& samples, std::size_t bins, Duration step) {
  if (samples.size() <= 2 * bins) return samples;
  const std::int64_t width = std::max<std::int64_t>(1, step.count() / static_cast<int>(bins));
  std::vector<Sample> result{samples.front()};
  for (auto first = samples.begin() + 1; first != samples.end();) {
    const std::int64_t bin = first->at.time_since_epoch().count() / width;
    const auto last = std::find_if(first, samples.end(), [&](const Sample& s) {
      return s.at.time_since_epoch().count() / width != bin;
    });
    const auto most = std::max_element(first, last, [](const Sample& x, const Sample& y) {
      return x.use.total() < y.use.total();
    });
    result.push_back(*most);
    if (most != std::prev(last)) result.push_back(*std::prev(last));
    first = last;
  }
  return result;
}

class Painter {
 public:
  Painter(const Problem& problem, const Timeline& timeline, const StepResult& result,
          std::span<const PathPart> path, const PictureSize& size)
      : graph_(problem.graph),
        cluster_(problem.cluster),
        result_(result),
        size_(size),
        compute_(cluster_.num_devices()),
        send_(cluster_.num_devices()),
        receive_(cluster_.num_devices()),
        memory_(cluster_.num_devices()) {
    for (const auto& [op, device, start, end] : timeline.ops())
      compute_[device].push_back({.start = start,
                                  .end = end,
                                  .what = static_cast<std::uint32_t>(op),
                                  .a = static_cast<std::uint32_t>(graph_.op(op).phase),
                                  .b = static_cast<std::uint32_t>(graph_.op(op).group),
                                  .longest = end - start});
    for (const auto& [tensor, src, dst, start, end] : timeline.transfers()) {
      Slice slice{.start = start,
                  .end = end,
                  .what = static_cast<std::uint32_t>(graph_.tensor(tensor).producer),
                  .a = static_cast<std::uint32_t>(dst),
                  .longest = end - start};
      send_[src].push_back(slice);
      slice.a = static_cast<std::uint32_t>(src);
      receive_[dst].push_back(slice);
    }
    for (const PathPart& part : path)
      path_.push_back({.start = part.start,
                       .end = part.end,
                       .what = static_cast<std::uint32_t>(part.op),
                       .a = static_cast<std::uint32_t>(part.kind),
                       .b = static_cast<std::uint32_t>(part.device),
                       .longest = part.length()});
    Bytes most;
    for (const auto& [device, at, use] : timeline.memory()) {
      std::vector<Sample>& samples = memory_[device];
      if (!samples.empty() && samples.back().at == at && samples.back().use.total() <= use.total())
        samples.pop_back();
      if (samples.empty() || samples.back().use != use) samples.push_back({at, use});
      most = std::max(most, use.total());
    }
    quantum_ = std::max<std::int64_t>(1, result.makespan.count() / 1'000'000);
    unit_ = std::max<std::int64_t>(1, most.count / 10'000);
  }

  std::string json(std::string_view roofline) const {
    std::string out = fmt::format("{{\"ns\":{},\"quantum\":{},\"unit\":{},\"oom\":{}",
                                  result_.makespan.count(), quantum_, unit_, oom());
    append_track(out, "path", path_, size_.path, true);
    if (!roofline.empty()) out += fmt::format(",\"roofline\":{}", roofline);
    out += ",\"devices\":[";
    for (const DeviceId d : cluster_.devices()) {
      const DeviceUse& use = result_.devices[d];
      out += fmt::format("{}{{\"name\":{},\"limit\":{},\"busy\":{},\"peak\":{}",
                         index(d) > 0 ? "," : "", text(cluster_.device(d).name),
                         cluster_.device(d).memory.count, use.busy.count(), use.peak.count);
      const std::size_t devices = cluster_.num_devices();
      append_track(out, "compute", compute_[d], size_.computing / devices, true);
      append_track(out, "send", send_[d], size_.transfers / (2 * devices), false);
      append_track(out, "receive", receive_[d], size_.transfers / (2 * devices), false);
      append_memory(out, memory_[d], size_.memory / (2 * devices));
      out += '}';
    }
    return out + "]}";
  }

 private:
  static constexpr std::size_t least = 20;  // slices or samples per device, however many devices

  static std::string text(std::string_view s) {
    return nlohmann::json(s).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }

  std::string oom() const {
    if (!result_.oom) return "null";
    const OutOfMemory& o = *result_.oom;
    return fmt::format("{{\"device\":{},\"ns\":{},\"op\":{},\"needed\":{},\"free\":{}}}",
                       index(o.device), o.at.time_since_epoch().count(), text(graph_.name(o.op)),
                       o.needed.count, o.free.count);
  }

  std::int64_t quanta(TimePoint t) const { return t.time_since_epoch().count() / quantum_; }

  /// With a comma after each number; end_list() removes the last one.
  static void append_numbers(std::string& out, std::initializer_list<std::int64_t> numbers) {
    for (const std::int64_t n : numbers) {
      const fmt::format_int digits(n);
      out.append(digits.data(), digits.size());
      out += ',';
    }
  }
  static void end_list(std::string& out) {
    if (out.back() == ',') out.pop_back();
    out += ']';
  }

  void append_track(std::string& out, std::string_view name, const std::vector<Slice>& slices,
                    std::size_t most, bool ops) const {
    out += fmt::format(",\"{}\":[", name);
    std::int64_t before = 0;
    for (const Slice& s : at_most(slices, std::max(most, least), result_.makespan)) {
      const std::int64_t start = quanta(s.start);
      append_numbers(out, {start - before, quanta(s.end) - start, s.what,
                           static_cast<std::int64_t>(s.count), s.a});
      if (ops) append_numbers(out, {s.b});
      before = start;
    }
    end_list(out);
  }

  void append_memory(std::string& out, const std::vector<Sample>& samples, std::size_t bins) const {
    out += ",\"memory\":[";
    std::int64_t before = 0;
    for (const Sample& s : thinned(samples, std::max(bins, least), result_.makespan)) {
      const std::int64_t at = quanta(s.at);
      append_numbers(out, {at - before});
      for (const MemoryKind kind : memory_kinds) append_numbers(out, {s.use[kind].count / unit_});
      before = at;
    }
    end_list(out);
  }

  const OpGraph& graph_;
  const Cluster& cluster_;
  const StepResult& result_;
  const PictureSize& size_;
  IdVector<DeviceId, std::vector<Slice>> compute_, send_, receive_;
  std::vector<Slice> path_;
  IdVector<DeviceId, std::vector<Sample>> memory_;
  std::int64_t quantum_ = 1, unit_ = 1;
};

}  // namespace

std::string roofline(const Problem& problem, const Timeline& timeline,
                     std::span<const DeviceModel* const> models, std::size_t most) {
  const OpGraph& graph = problem.graph;
  const std::vector<RanOp> ran = ops_of(graph, timeline);
  if (std::ranges::none_of(ran, [](const RanOp& op) { return op.load.drawn(); })) return "";
  Json ops = Json::array(), layers = Json::array();
  for (const RanOp& op : longest(ran, most, [](const RanOp& o) { return o.load; })) {
    ops.push_back(numbers(graph.name(op.op), op.load));
    const DeviceModel* model = models[index(op.device)];
    ops.back().push_back(model == nullptr ? -1
                                          : static_cast<int>(bound_by_work(graph, op.op, *model)));
  }
  std::map<std::string_view, Load> by_module;
  for (const RanOp& op : ran)
    if (const std::string_view module = graph.module(op.op); !module.empty())
      by_module[module].add(op.load);
  std::vector<std::pair<std::string_view, Load>> modules(by_module.begin(), by_module.end());
  for (const auto& [name, load] : longest(modules, most, [](const auto& m) { return m.second; }))
    layers.push_back(numbers(name, load));
  const Json drawn{{"roofs", roofs_of(graph, ran, models)},
                   {"ops", std::move(ops)},
                   {"layers", std::move(layers)}};
  return drawn.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::vector<std::size_t> lanes(const std::vector<Span>& spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::tuple(spans[i].start, spans[i].end, i); });

  using Busy = std::pair<TimePoint, std::size_t>;  // until when, lane
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> idle;
  std::vector<std::size_t> lane(spans.size());
  std::size_t opened = 0;
  for (const std::size_t i : order) {
    for (; !busy.empty() && busy.top().first <= spans[i].start; busy.pop())
      idle.push(busy.top().second);
    if (idle.empty()) idle.push(opened++);
    lane[i] = idle.top();
    idle.pop();
    busy.emplace(spans[i].end, lane[i]);
  }
  return lane;
}

std::string picture(const Problem& problem, const Timeline& timeline, const StepResult& result,
                    std::span<const PathPart> path, const PictureSize& size,
                    std::string_view roofline) {
  return Painter(problem, timeline, result, path, size).json(roofline);
}

}  // namespace baechi
