#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/graph/analysis.h"
#include "sim/report/timeline.h"

namespace baechi {
namespace {

/// A JSON string; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds, the unit of the format, without loss of digits.
std::string micros(Duration time) {
  return fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000);
}
std::string micros(TimePoint time) { return micros(time.time_since_epoch()); }

/// Distinguishable Chrome colour names, for chrome://tracing; Perfetto ignores them.
constexpr std::array group_colours{"thread_state_running",
                                   "thread_state_iowait",
                                   "rail_response",
                                   "rail_animation",
                                   "rail_load",
                                   "rail_idle",
                                   "cq_build_passed",
                                   "cq_build_failed",
                                   "startup",
                                   "yellow",
                                   "olive",
                                   "vsync_highlight_color"};

class Writer {
 public:
  Writer(const std::function<void(std::string_view)>& sink, const Problem& problem,
         const Timeline& timeline)
      : sink_(sink),
        graph_(problem.graph),
        cluster_(problem.cluster),
        timeline_(timeline),
        op_places_(problem.graph.num_ops()),
        next_thread_(cluster_.num_devices() + 2) {}

  void write(const StepResult& result, std::span<const PathPart> path) {
    sink_("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (const DeviceId d : cluster_.devices()) {
      metadata("process_name", d, 0,
               fmt::format("\"name\":{}", json_string(cluster_.device(d).name)));
      metadata("process_sort_index", d, 0, fmt::format("\"sort_index\":{}", index(d)));
    }
    for (const DeviceId d : cluster_.devices()) {
      for (std::size_t lane = 0; lane < graph_.lanes().size(); ++lane)
        write_lane(d, static_cast<LaneKind>(lane));
      write_transfers(d, true);
      write_transfers(d, false);
    }
    write_arrows();
    write_path(path);
    write_memory();
    if (result.oom) write_out_of_memory(*result.oom);
    sink_("\n]}\n");
  }

 private:
  struct Slice {
    std::string text;  // the event without its thread
    Span span;
  };
  /// The position of a slice.
  struct Place {
    std::size_t pid = 0, tid = 0;
    TimePoint start{};
  };

  void write_lane(DeviceId device, LaneKind lane) {
    std::vector<Slice> slices;
    std::vector<OpId> ops;
    for (const auto& [op, on, start, end] : timeline_.ops()) {
      if (on != device || graph_.lane(op) != lane) continue;
      ops.push_back(op);
      const GroupId group = graph_.op(op).group;
      std::string colour, group_name, collective;
      if (const CollectiveId c = graph_.collective_of(op); c != no_collective) {
        const Collective& all = graph_.collectives()[c];
        collective = fmt::format(",\"collective\":\"{}\",\"bytes\":{},\"ranks\":{}",
                                 to_text(all.kind), all.bytes.count, all.ranks);
      }
      if (group != no_group) {
        colour = fmt::format("\"cname\":\"{}\",",
                             group_colours[(index(group) - 1) % group_colours.size()]);
        group_name = fmt::format(",\"group\":{}", json_string(graph_.group_name(group)));
      }
      slices.push_back(
          {fmt::format(
               "\"cat\":\"op\",{}\"name\":{},\"args\":{{\"op\":{},\"kind\":{},\"phase\":\"{}\"{}{},"
               "\"persistent_bytes\":{},\"temporary_bytes\":{},\"output_bytes\":{}}}",
               colour, json_string(graph_.name(op)), index(op), json_string(graph_.kind(op)),
               to_text(graph_.op(op).phase), group_name, collective, graph_.op(op).persistent.count,
               graph_.op(op).temporary.count, output_bytes(graph_, op).count),
           {start, end}});
    }
    const std::vector<Place> places = write_track(device, graph_.lanes()[index(lane)], slices);
    for (std::size_t i = 0; i < ops.size(); ++i) op_places_[ops[i]] = places[i];
  }

  void write_transfers(DeviceId device, bool sending) {
    std::vector<Slice> slices;
    std::vector<std::size_t> numbers;  // into timeline_.transfers()
    for (const auto& transfer : timeline_.transfers()) {
      const auto& [tensor, src, dst, start, end] = transfer;
      if ((sending ? src : dst) != device) continue;
      numbers.push_back(static_cast<std::size_t>(&transfer - timeline_.transfers().data()));
      const Tensor& t = graph_.tensor(tensor);
      slices.push_back(
          {fmt::format("\"cat\":\"{}\",\"name\":{},\"args\":{{\"tensor\":{},\"from\":{},\"to\":{},"
                       "\"bytes\":{},\"control\":{}}}",
                       sending ? "send" : "receive", json_string(graph_.name(t.producer)),
                       index(tensor), json_string(cluster_.device(src).name),
                       json_string(cluster_.device(dst).name), t.size.count, t.control),
           {start, end}});
    }
    const std::vector<Place> places = write_track(device, sending ? "send" : "receive", slices);
    std::vector<Place>& of = sending ? send_places_ : receive_places_;
    of.resize(timeline_.transfers().size());
    for (std::size_t i = 0; i < numbers.size(); ++i) of[numbers[i]] = places[i];
  }

  /// From the producer of each tensor through its transfer to its first reader after the transfer.
  void write_arrows() {
    for (std::size_t i = 0; i < timeline_.transfers().size(); ++i) {
      const Timeline::TransferSlice& t = timeline_.transfers()[i];
      std::vector<Place> arrow{op_places_[graph_.tensor(t.tensor).producer], send_places_[i],
                               receive_places_[i]};
      const Place* reader = nullptr;
      for (const EdgeId e : graph_.readers(t.tensor)) {
        const Place& place = op_places_[graph_.edge(e).dst];
        if (place.pid == pid(t.dst) && place.start >= t.end &&
            (reader == nullptr || place.start < reader->start))
          reader = &place;
      }
      if (reader != nullptr) arrow.push_back(*reader);
      for (std::size_t k = 0; k < arrow.size(); ++k)
        event(
            fmt::format("\"ph\":\"{}\",\"cat\":\"tensor\",\"name\":\"tensor\",\"id\":{},\"pid\":{},"
                        "\"tid\":{},\"ts\":{},\"bp\":\"e\",\"args\":{{}}",
                        k == 0                  ? 's'
                        : k + 1 == arrow.size() ? 'f'
                                                : 't',
                        i + 1, arrow[k].pid, arrow[k].tid, micros(arrow[k].start)));
    }
  }

  void write_path(std::span<const PathPart> path) {
    if (path.empty()) return;
    const auto process = static_cast<DeviceId>(cluster_.num_devices());  // after all devices
    metadata("process_name", process, 0, "\"name\":\"critical path\"");
    std::vector<Slice> slices;
    for (const PathPart& part : path) {
      const std::string name =
          part.kind == PathKind::compute
              ? std::string(graph_.name(part.op))
              : fmt::format("{}: {}", to_text(part.kind), graph_.name(part.op));
      slices.push_back(
          {fmt::format("\"cat\":\"path\",\"name\":{},\"args\":{{\"kind\":\"{}\",\"device\":{}}}",
                       json_string(name), to_text(part.kind),
                       json_string(cluster_.device(part.device).name)),
           {part.start, part.end}});
    }
    write_track(process, "path", slices);
  }

  /// Each slice is on the first free lane; an empty track is omitted. Returns the slices'
  /// positions.
  std::vector<Place> write_track(DeviceId device, std::string_view track,
                                 const std::vector<Slice>& slices) {
    std::vector<Span> spans;
    for (const Slice& slice : slices) spans.push_back(slice.span);
    const std::vector<std::size_t> lane = lanes(spans);
    const std::size_t num_lanes = lane.empty() ? 0 : *std::ranges::max_element(lane) + 1;
    for (std::size_t i = 0; i < num_lanes; ++i) {
      const std::string name =
          num_lanes == 1 ? std::string(track) : fmt::format("{} {}", track, i + 1);
      metadata("thread_name", device, next_thread_ + i,
               fmt::format("\"name\":{}", json_string(name)));
      metadata("thread_sort_index", device, next_thread_ + i,
               fmt::format("\"sort_index\":{}", next_thread_ + i));
    }
    for (std::size_t i = 0; i < slices.size(); ++i) {
      event(fmt::format("\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},{}", pid(device),
                        next_thread_ + lane[i], micros(spans[i].start),
                        micros(spans[i].end - spans[i].start), slices[i].text));
    }
    std::vector<Place> places;
    for (std::size_t i = 0; i < slices.size(); ++i)
      places.push_back({pid(device), next_thread_ + lane[i], spans[i].start});
    next_thread_ += num_lanes;
    return places;
  }

  void write_memory() {
    for (const DeviceId d : cluster_.devices())
      event(
          fmt::format("\"ph\":\"C\",\"name\":\"memory "
                      "limit\",\"pid\":{},\"ts\":0.000,\"args\":{{\"bytes\":{}}}",
                      pid(d), cluster_.device(d).memory.count));
    for (const auto& [device, at, use] : timeline_.memory()) {
      std::string counts;
      for (const MemoryKind kind : memory_kinds)
        counts +=
            fmt::format("{}\"{}\":{}", counts.empty() ? "" : ",", to_text(kind), use[kind].count);
      event(fmt::format("\"ph\":\"C\",\"name\":\"memory\",\"pid\":{},\"ts\":{},\"args\":{{{}}}",
                        pid(device), micros(at), counts));
    }
  }

  void write_out_of_memory(const OutOfMemory& oom) {
    event(
        fmt::format("\"ph\":\"i\",\"s\":\"p\",\"name\":\"out of memory\",\"pid\":{},\"tid\":0,"
                    "\"ts\":{},\"args\":{{\"op\":{},\"needed_bytes\":{},\"free_bytes\":{}}}",
                    pid(oom.device), micros(oom.at), json_string(graph_.name(oom.op)),
                    oom.needed.count, oom.free.count));
  }

  void metadata(std::string_view what, DeviceId device, std::size_t thread, std::string_view args) {
    event(fmt::format("\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}", what,
                      pid(device), thread, args));
  }

  void event(std::string_view fields) {
    sink_(fmt::format("{}\n{{{}}}", first_ ? "" : ",", fields));
    first_ = false;
  }

  /// Process 0 would be the idle process in Perfetto.
  static std::size_t pid(DeviceId device) { return index(device) + 1; }

  const std::function<void(std::string_view)>& sink_;
  const OpGraph& graph_;
  const Cluster& cluster_;
  const Timeline& timeline_;
  IdVector<OpId, Place> op_places_;
  std::vector<Place> send_places_, receive_places_;  // [transfers]
  std::size_t next_thread_;                          // distinct from all process ids
  bool first_ = true;
};

}  // namespace

void write_perfetto(const std::function<void(std::string_view)>& sink, const Problem& problem,
                    const Timeline& timeline, const StepResult& result,
                    std::span<const PathPart> path) {
  Writer(sink, problem, timeline).write(result, path);
}

}  // namespace baechi
