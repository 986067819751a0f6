#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <tuple>

#include "sim/report/timeline.h"

namespace baechi {

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

namespace {

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

std::string picture(const Problem& problem, const Timeline& timeline, const StepResult& result,
                    std::span<const PathPart> path, const PictureSize& size,
                    std::string_view roofline) {
  return Painter(problem, timeline, result, path, size).json(roofline);
}

}  // namespace baechi
