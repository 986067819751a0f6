#include "traces/import/kineto/step.h"

#include <deque>
#include <set>
#include <tuple>

namespace baechi::kineto {
namespace {

using namespace std::chrono_literals;

// Decisions:
// - The host's time is cut at each driver call that launches work or waits for it. A piece and the
//   gap before it are an op in its thread's lane, which follows the thread's previous piece.
// - Work waits for its launch and for its predecessor in its stream. If it was queued when the
//   predecessor ended, a gap of up to 10 us is added to its time: GPUs have such gaps. After a
//   longer gap it waits for the work of another stream that ended just before it began; without
//   such work the gap is an op of kind Idle.
// - If the GPU lags behind the host, work of the step may be launched before it: it then waits for
//   no launch.
// - A call that blocks (cudaStreamSynchronize, a copy to pageable memory, a launch while the queue
//   is full) waits for the last work of each stream that ended before the call did. It is an op of
//   the time that the call took after that work.
// - A recorded wait of a stream for an event (category cuda_sync): its next work waits for the last
//   work that was launched in the event's stream before the event's cudaEventRecord, and for no
//   stream by its times. So do recorded waits of the host for a stream or an event.
// - cudaStreamWaitEvent, in a recording without such waits: the thread's next launch in another
//   stream waits for the work before its last cudaEventRecord, if the recorded times agree.
// - If another thread ran a whole piece in a thread's gap, the thread's next piece waits for it:
//   autograd's thread and the main thread hand over like this.
// All dependencies go from an earlier launch to a later one, so there is no cycle.

constexpr Duration most_gap = 10us, most_wake = 30us, rounding = 1us;
// A launch longer than this and than ten times the median waits for space in the queue.
constexpr Duration least_blocked = 50us;

/// "gemm_64x64" of "void ns::gemm_64x64<float, 4>(float*)".
std::string kernel_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  constexpr std::string_view unnamed = "(anonymous namespace)::";
  if (const std::size_t at = name.find(unnamed); at != std::string_view::npos)
    name.remove_prefix(at + unnamed.size());
  name = name.substr(0, name.find_first_of("<( "));
  if (const std::size_t colons = name.rfind("::"); colons != std::string_view::npos)
    name.remove_prefix(colons + 2);
  return std::string(name.empty() ? "kernel" : name);
}

/// The median duration of driver calls, by name.
std::unordered_map<std::string_view, Duration> usual_times(const Recording& recording) {
  std::unordered_map<std::string_view, std::vector<Duration>> times;
  for (const Call& call : recording.calls)
    if (call.kind == CallKind::runtime) times[call.name].push_back(call.duration);
  std::unordered_map<std::string_view, Duration> usual;
  for (auto& [name, all] : times) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::ranges::nth_element(all, middle);
    usual.emplace(name, *middle);
  }
  return usual;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string name;
  for (const std::string_view part : parts)
    if (!part.empty()) name += (name.empty() ? "" : "/") + std::string(part);
  return name;
}

/// Critical path over recorded durations.
Duration longest_chain(const std::vector<StepOp>& ops, const std::vector<Duration>& took) {
  std::vector<Duration> end(ops.size());
  Duration longest{};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const std::size_t before : ops[i].after) end[i] = std::max(end[i], end[before]);
    longest = std::max(longest, end[i] += took[i]);
  }
  return longest;
}

class StepBuilder {
 public:
  StepBuilder(const Recording& recording, const Window& window, const StepOptions& options)
      : recording_(recording),
        window_(window),
        options_(options),
        lanes_(recording, window),
        launched_(by_correlation(recording)),
        contexts_(call_contexts(recording)),
        usual_(usual_times(recording)) {
    find_waits();
  }

  Step make() {
    step_.recorded = window_.end - window_.start;
    find_unlaunched();
    const std::vector<Piece> pieces =
        host_pieces(recording_, contexts_, window_, launched_, options_.level);
    run_backlog(pieces);
    for (const Piece& piece : pieces) run(piece);
    unlaunched_before(Duration::max());
    if (!step_.ops.empty()) end_of_step();
    if (options_.host) step_.replayed = longest_chain(step_.ops, took_);
    return std::move(step_);
  }

 private:
  struct Thread {
    Duration start{}, end{};  // of the thread's last piece
    std::size_t last = none;  // index of its last op
    std::size_t launched = none,
                recorded = none;         // ops: its last work; that before its last EventRecord
    std::vector<std::size_t> awaited{};  // ops that its next work waits for
  };

  void find_waits() {
    for (const Call& call : recording_.calls)
      if (call.correlation) called_.emplace(*call.correlation, call.start);
    for (const RecordedWait& wait : recording_.waits)
      if (wait.of_stream && wait.stream)
        stream_waits_[{wait.device, *wait.stream}].push_back(&wait);
      else if (!wait.of_stream && wait.correlation)
        host_waits_.emplace(*wait.correlation, &wait);
  }

  /// Adds to `after` what recorded waits of the stream before the launch say that `work` waits for.
  /// Returns whether there are any.
  bool recorded_waits(const DeviceWork& work, const Call* call, std::vector<std::size_t>& after) {
    const auto found = stream_waits_.find({work.device, work.stream});
    if (found == stream_waits_.end() || call == nullptr) return false;
    bool any = false;
    for (auto& waits = found->second; !waits.empty(); waits.pop_front()) {
      const RecordedWait& wait = *waits.front();
      const auto by = called_.find(wait.correlation.value_or(-1));
      const Duration at = by == called_.end() ? wait.start : by->second;
      if (at > call->start) break;
      const std::size_t op = awaited(wait, at);
      any = true;
      if (op != none && end_[op] <= work.start + rounding) after.push_back(op);
    }
    return any;
  }

  /// The op that `wait`, called at `at`, is for: the last one in the event's stream that was
  /// launched before the event's record. none: it is not in the step.
  std::size_t awaited(const RecordedWait& wait, Duration at) const {
    if (const auto record = called_.find(wait.awaited_record.value_or(-1)); record != called_.end())
      at = record->second;
    const Stream* stream = streams_.find(wait.device, wait.awaited_stream.value_or(-1));
    if (stream == nullptr) return none;
    const auto after = std::ranges::upper_bound(stream->launched, at, {},
                                                [](const auto& launch) { return launch.first; });
    return after == stream->launched.begin() ? none : (after - 1)->second;
  }

  /// Recorded end and op of the work that ended by `until` and that the host waits for in `call`:
  /// of the event or stream that is recorded, else of all streams.
  std::vector<std::pair<Duration, std::size_t>> awaited_by_host(const Call& call,
                                                                Duration until) const {
    const auto found = host_waits_.find(call.correlation.value_or(-1));
    if (found == host_waits_.end()) return streams_.ended(until);
    const RecordedWait& wait = *found->second;
    if (const std::size_t op = awaited(wait, call.start); op != none && end_[op] <= until)
      return {{end_[op], op}};
    const Stream* stream = streams_.find(wait.device, wait.stream.value_or(-1));
    if (stream == nullptr) return streams_.ended(until);  // a wait for all has stream -1
    const auto last = stream->last_ended(until);
    return last ? std::vector{*last} : std::vector<std::pair<Duration, std::size_t>>{};
  }

  /// Finds the work of the step whose launch was not recorded.
  void find_unlaunched() {
    std::set<std::int64_t> known;
    for (const Call& call : recording_.calls)
      if (call.kind == CallKind::runtime && call.correlation) known.insert(*call.correlation);
    known.erase(0);  // stands for none
    for (std::size_t i = 0; i < recording_.work.size(); ++i) {
      const DeviceWork& work = recording_.work[i];
      if (window_.holds(work.start) && !known.contains(work.correlation.value_or(0)))
        unlaunched_[{work.device, work.stream}].push_back(i);
    }
    for (auto& [stream, work] : unlaunched_)
      std::ranges::stable_sort(work, {}, [&](std::size_t i) { return recording_.work[i].start; });
  }

  /// Whether the piece's last call began before the step.
  bool is_before(const Piece& piece) const {
    return recording_.calls[piece.calls.back()].start < window_.start;
  }

  /// Adds the work that was launched before the step and runs in it.
  void run_backlog(const std::vector<Piece>& pieces) {
    std::vector<std::tuple<const DeviceWork*, const Call*, const Piece*>> backlog;
    for (const Piece& piece : pieces)
      for (const std::size_t c : piece.calls) {
        const Call& call = recording_.calls[c];
        const auto found = is_before(piece) && call.correlation ? launched_.find(*call.correlation)
                                                                : launched_.end();
        if (found == launched_.end()) continue;
        for (const std::size_t w : found->second)
          backlog.emplace_back(&recording_.work[w], &call, &piece);
      }
    std::ranges::stable_sort(backlog, {}, [](const auto& b) { return std::get<0>(b)->start; });
    for (const auto& [work, call, piece] : backlog) launch(*work, call, piece);
  }

  void run(const Piece& piece) {
    if (is_before(piece)) {
      const Call& last = recording_.calls[piece.calls.back()];
      if (last.end() > window_.start && (waits(last) || busy_until(last) < last.end()))
        wait(last, piece);
      return;
    }
    ++piece_;
    Duration until = std::min(piece.end, window_.end);
    if (!recording_.work.empty())
      until = std::min(busy_until(recording_.calls[piece.calls.back()]), window_.end);
    host_op(piece, until);
    for (const std::size_t c : piece.calls) {
      const Call& call = recording_.calls[c];
      if (call.kind != CallKind::runtime) continue;
      Thread& t = thread(piece.thread);
      if (records_event(call)) t.recorded = t.launched;
      if (awaits_event(call) && t.recorded != none && stream_waits_.empty())
        t.awaited.push_back(t.recorded);
      const bool blocks = waits(call) || busy_until(call) < call.end();
      if (const auto found = call.correlation ? launched_.find(*call.correlation) : launched_.end();
          found != launched_.end())
        for (const std::size_t w : found->second) launch(recording_.work[w], &call, &piece);
      if (blocks) wait(call, piece);
    }
  }

  /// Adds the thread's time since its last piece, or since a hand-over, up to `until`.
  void host_op(const Piece& piece, Duration until) {
    Thread& t = thread(piece.thread);
    const std::size_t from = hand_over(piece.thread, piece.start);
    const Duration since = from == none ? t.end : std::max(t.end, end_[from]);
    t.start = since;
    if (from != none) ++step_.hand_overs;
    const bool on_gpu = !recording_.work.empty();
    if (options_.host || !on_gpu)
      t.last = add(
          {.name = joined({piece.module, piece.op, on_gpu ? "launch" : ""}),
           .kind = on_gpu ? "Launch" : piece.op,
           .lane = lanes_.of_thread(piece.thread),
           .module = piece.module,
           .compute = options_.host ? std::max(Duration{}, until - since) : piece.end - piece.start,
           .phase = piece.phase,
           .after = {t.last, from}},
          until);
    t.end = std::max(t.end, until);
  }

  /// End of the host's own part of a driver call: a call may block afterwards, while its copy runs.
  Duration busy_until(const Call& call) const {
    if (waits(call)) return call.start;
    const auto found = call.correlation ? launched_.find(*call.correlation) : launched_.end();
    if (found == launched_.end()) return call.end();
    const DeviceWork& work = recording_.work[found->second.back()];
    const Stream* stream = streams_.find(work);
    if (work.kind != WorkKind::copy) {
      const Duration usual = usual_.at(call.name);
      const bool full = stream != nullptr && stream->end > call.end() &&
                        call.duration > std::max(least_blocked, 10 * usual);
      return full ? call.start + usual : call.end();
    }
    const bool idle = stream == nullptr || stream->end <= call.start;
    if (idle) return std::clamp(work.start, call.start, call.end());
    return work.start > call.end() ? call.end() : call.start;
  }

  void launch(const DeviceWork& work, const Call* call, const Piece* piece) {
    if (!window_.holds(work.start)) return;
    const bool before = call != nullptr && call->start < window_.start;
    if (call != nullptr) unlaunched_before(work.start, &work);
    ++step_.work;
    step_.work_time += work.duration;
    Stream& stream = streams_.of(work);
    std::vector<std::size_t> after{stream.last};
    if (call != nullptr) {
      ++step_.joined;
      step_.joined_time += work.duration;
    }
    const bool known = recorded_waits(work, call, after);
    if (call != nullptr && !before) {
      Thread& t = thread(call->thread);
      if (options_.host) after.push_back(t.last);
      for (const std::size_t a : t.awaited)
        if (a != stream.last && end_[a] <= work.start + rounding) after.push_back(a);
      t.awaited.clear();
    }
    Duration gap{};
    const bool queued =
        stream.last != none && (call == nullptr || before || call->end() < stream.end);
    if (!known && queued && work.start > stream.end && work.start - stream.end <= most_gap)
      gap = work.start - stream.end;
    if (known || queued || (options_.host && call != nullptr))
      gap += idle(work, piece, stream, after, known);
    const auto met = collective(work, call);
    const bool goes_on = options_.level == Level::op && piece != nullptr &&
                         stream.piece == piece_ && !met && work.kind != WorkKind::copy &&
                         after.size() <= 2;
    if (!met) step_.gaps += gap;
    const std::string kind = work.kind == WorkKind::copy   ? "Copy"
                             : is_nccl(work)               ? kernel_name(work.name)
                             : piece != nullptr            ? piece->op
                             : work.kind == WorkKind::fill ? "Fill"
                                                           : kernel_name(work.name);
    if (goes_on) {
      step_.ops[stream.last].compute += work.duration + gap;
      took_[stream.last] += work.duration + gap;
      end_[stream.last] = work.end();
    } else {
      const bool by_op = options_.level == Level::op && work.kind != WorkKind::copy && !met;
      stream.last = add(
          {.name = joined({piece == nullptr ? "" : piece->module, piece == nullptr ? "" : piece->op,
                           by_op && piece != nullptr ? "" : kernel_name(work.name)}),
           .kind = kind,
           .lane = lanes_.of_stream(work.device, work.stream),
           .module = piece == nullptr ? "" : piece->module,
           .compute = met ? Duration{} : work.duration + gap,
           .bytes = work.kind == WorkKind::copy ? work.bytes : Bytes{},
           .phase = piece == nullptr ? Phase::forward : piece->phase,
           .device = work.device,
           .after = std::move(after),
           .collective = met},
          work.end(), work.duration + gap);
    }
    stream.piece = met || work.kind == WorkKind::copy || piece == nullptr ? none : piece_;
    stream.end = std::max(stream.end, work.end());
    stream.ran.emplace_back(stream.end, stream.last);
    if (call != nullptr) stream.launched.emplace_back(call->start, stream.last);
    if (call != nullptr && !before) thread(call->thread).launched = stream.last;
  }

  /// If `work` began late, adds the op that it waited for to `after`, or an Idle op. Returns the
  /// delay between the end of that op and the start of `work`. `known`: `after` has what recorded
  /// waits say. In a recording without any, another stream's op may be found by its times.
  Duration idle(const DeviceWork& work, const Piece* piece, Stream& stream,
                std::vector<std::size_t>& after, bool known) {
    Duration ready = window_.start;
    bool woken = false;  // by work on a GPU
    for (const std::size_t a : after) {
      if (a == none || end_[a] < ready) continue;
      ready = end_[a];
      woken = step_.ops[a].device.has_value();
    }
    if (known && woken && work.start - ready <= most_wake)
      return std::max(Duration{}, work.start - ready);
    if (work.start - ready <= most_gap) return {};
    std::pair<Duration, std::size_t> cause{ready, none};
    if (stream_waits_.empty())
      for (const auto& ended : streams_.ended(work.start + rounding, &stream))
        cause = std::max(cause, ended);
    if (cause.second != none && work.start - cause.first <= most_wake) {
      after.push_back(cause.second);
      return std::max(Duration{}, work.start - cause.first);
    }
    step_.idle += work.start - ready;
    after = {add({.name = joined({piece == nullptr ? "" : piece->module, "idle"}),
                  .kind = "Idle",
                  .lane = lanes_.of_stream(work.device, work.stream),
                  .module = piece == nullptr ? "" : piece->module,
                  .compute = work.start - ready,
                  .phase = piece == nullptr ? Phase::forward : piece->phase,
                  .device = work.device,
                  .after = std::move(after)},
                 work.start)};
    stream.piece = none;
    return {};
  }

  void wait(const Call& call, const Piece& piece) {
    Thread& t = thread(piece.thread);
    unlaunched_before(call.end());
    std::vector<std::size_t> after{t.last};
    Duration latest = std::max(busy_until(call), t.end);
    const Duration end = std::min(call.end(), window_.end);
    for (const auto& [ended, op] : awaited_by_host(call, end + rounding)) {
      after.push_back(op);
      latest = std::max(latest, ended);
    }
    if (options_.host)
      t.last = add({.name = joined({piece.module, piece.op, "wait"}),
                    .kind = "Wait",
                    .lane = lanes_.of_thread(piece.thread),
                    .module = piece.module,
                    .compute = std::max(Duration{}, end - latest),
                    .phase = piece.phase,
                    .after = std::move(after)},
                   end);
    t.end = std::max(t.end, end);
  }

  /// Adds the work without a recorded launch that began before `at`, in the stream of `on` or in
  /// all.
  void unlaunched_before(Duration at, const DeviceWork* on = nullptr) {
    for (auto& [stream, waiting] : unlaunched_) {
      if (on != nullptr && stream != std::pair(on->device, on->stream)) continue;
      while (!waiting.empty() && recording_.work[waiting.front()].start < at) {
        const std::size_t next = waiting.front();
        waiting.pop_front();
        launch(recording_.work[next], nullptr, nullptr);
      }
    }
  }

  /// Adds the main thread's time after its last piece.
  void end_of_step() {
    if (!options_.host) return;
    const std::size_t main = lanes_.main_thread();
    Thread& t = thread(main);
    const Duration end = std::min(window_.end, window_.host_end);
    const std::size_t from = hand_over(main, end);
    const Duration since = from == none ? t.end : std::max(t.end, end_[from]);
    if (since >= end) return;
    add({.name = "end of the step",
         .kind = "Host",
         .lane = lanes_.of_thread(main),
         .compute = end - since,
         .phase = Phase::update,
         .after = {t.last, from}},
        end);
  }

  Thread& thread(std::size_t t) {
    return threads_.try_emplace(t, Thread{.start = window_.start, .end = window_.start})
        .first->second;
  }

  /// The last op of another thread that ran a whole piece between the end of thread `t` and
  /// `until`, or none.
  std::size_t hand_over(std::size_t t, Duration until) {
    const Duration since = thread(t).end;
    std::size_t found = none;
    for (const auto& [other, state] : threads_)
      if (other != t && state.last != none && state.start >= since && state.end <= until &&
          (found == none || end_[found] < state.end))
        found = state.last;
    return found;
  }

  /// The collective of the kernel; nullopt if it is none, or its size is unknown.
  std::optional<RecordedCollective> collective(const DeviceWork& work, const Call* call) {
    const auto kind = collective_kind(work);
    if (!kind || !options_.collectives) return std::nullopt;
    std::optional<Communication> args = work.communication;
    if (!args && call != nullptr) {
      const auto caller = static_cast<std::size_t>(call - recording_.calls.data());
      if (const std::size_t c = contexts_[caller].communication; c != none)
        args = recording_.calls[c].communication;
    }
    const bool gathers = *kind == CollectiveKind::all_gather;
    const auto elements = !args ? std::nullopt : gathers ? args->out_elements : args->in_elements;
    constexpr std::int64_t most_ranks = 1 << 20;
    if (!elements || !args->element_bytes || !args->ranks || *args->ranks < 1 ||
        *args->ranks > most_ranks) {
      ++step_.unsized;
      return std::nullopt;
    }
    return RecordedCollective{.kind = *kind,
                              .bytes = {*elements * *args->element_bytes},
                              .ranks = static_cast<std::uint32_t>(*args->ranks),
                              .group = args->group,
                              .sequence = args->sequence};
  }

  std::size_t add(StepOp op, Duration end, Duration took) {
    std::erase(op.after, none);
    std::ranges::sort(op.after);
    op.name = fmt::format("{}.{}", op.name, step_.ops.size());
    step_.ops.push_back(std::move(op));
    end_.push_back(end);
    took_.push_back(took);
    return step_.ops.size() - 1;
  }

  std::size_t add(StepOp op, Duration end) {
    const Duration took = op.compute;
    return add(std::move(op), end, took);
  }

  const Recording& recording_;
  const Window& window_;
  StepOptions options_;
  Lanes lanes_;
  Launched launched_;
  std::vector<CallContext> contexts_;
  std::unordered_map<std::string_view, Duration> usual_;
  Step step_;
  std::vector<Duration> end_;  // [step_.ops] the recorded end
  std::map<std::size_t, Thread> threads_;
  Streams streams_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::deque<std::size_t>>
      unlaunched_;  // by stream: work without a recorded launch, by start
  // Recorded waits: of each stream, by time, and of the host, by the correlation of its call.
  std::map<std::pair<std::int64_t, std::int64_t>, std::deque<const RecordedWait*>> stream_waits_;
  std::unordered_map<std::int64_t, const RecordedWait*> host_waits_;
  std::unordered_map<std::int64_t, Duration> called_;  // by correlation: start of the driver call
  std::vector<Duration> took_;  // [step_.ops] recorded durations, of collectives too
  std::size_t piece_ = 0;       // number of the current piece
};

}  // namespace

Step make_step(const Recording& recording, const Window& window, const StepOptions& options) {
  return StepBuilder(recording, window, options).make();
}

}  // namespace baechi::kineto
