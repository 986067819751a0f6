#include "traces/import/kineto/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "traces/import/kineto/host_pieces.h"
#include "traces/import/kineto/lanes.h"

namespace baechi::kineto {
namespace {

using namespace std::chrono_literals;

// Decisions:
// - The host's time is cut at each call of the driver that launches work or waits for it. A piece,
//   with the pause before it, is an op in its thread's lane, and follows the piece before it.
// - Work waits for its launch, and for the work before it in its stream. Work that was queued when
//   the work before it ended takes the gap between the two, up to 10 us: a GPU needs it.
// - A call that waits (cudaStreamSynchronize, a copy to pageable memory) is an op of the time that
//   it took beyond the work for which it waited: the last work of each stream that was launched
//   before and had ended when the call did.
// - cudaStreamWaitEvent: what is launched next, in another stream, waits for the work before the
//   thread's last cudaEventRecord, where the recorded times agree.
// - A thread that goes on after another thread did a whole piece in its pause waits for that piece:
//   so autograd's thread and the main one hand over.
// All waits go from an earlier launch to a later one, so there is no cycle.

constexpr Duration most_gap = 10us, rounding = 1us;
constexpr std::size_t none = ~std::size_t{0};

class StepMaker {
 public:
  StepMaker(const Recording& recording, const Window& window, const StepOptions& options)
      : recording_(recording),
        window_(window),
        options_(options),
        lanes_(recording, window),
        launched_(by_correlation(recording)) {}
  Step make();

 private:
  struct Thread {
    Duration start{}, end{};                       // of its last piece
    std::size_t last = none;                       // its last op
    std::size_t launched = none, recorded = none;  // its last work; before its last EventRecord
    std::vector<std::size_t> awaited{};            // what its next work waits for
  };
  struct Stream {
    std::size_t last = none;   // its last op
    std::size_t piece = none;  // that launched it
    Duration end{};            // of its last work
  };

  void find_unlaunched();
  void run(const Piece& piece);
  void host_op(const Piece& piece, Duration until);
  Duration busy_until(const Call& call) const;
  void launch(const DeviceWork& work, const Call* call, const Piece* piece);
  void wait(const Call& call, const Piece& piece);
  void unlaunched_before(Duration at);
  void end_of_step();
  Thread& thread(std::size_t t) {
    return threads_.try_emplace(t, Thread{.start = window_.start, .end = window_.start})
        .first->second;
  }
  std::size_t hand_over(std::size_t thread, Duration until);
  std::optional<RecordedCollective> collective(const DeviceWork& work, const Call* call);
  std::size_t add(StepOp op, Duration end);

  const Recording& recording_;
  const Window& window_;
  StepOptions options_;
  Lanes lanes_;
  Launched launched_;
  Step step_;
  std::vector<Duration> end_;  // [step_.ops] the recorded end
  std::map<std::size_t, Thread> threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, Stream> streams_;
  std::vector<std::size_t> unlaunched_;  // work without a known launch, by start
  std::size_t next_unlaunched_ = 0;
  std::size_t piece_ = 0;  // number of the current piece
};

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

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string name;
  for (const std::string_view part : parts)
    if (!part.empty()) name += (name.empty() ? "" : "/") + std::string(part);
  return name;
}

std::size_t StepMaker::add(StepOp op, Duration end) {
  std::erase(op.after, none);
  std::ranges::sort(op.after);
  op.after.erase(std::ranges::unique(op.after).begin(), op.after.end());
  op.name = fmt::format("{}.{}", op.name, step_.ops.size());
  step_.ops.push_back(std::move(op));
  end_.push_back(end);
  return step_.ops.size() - 1;
}

/// Work whose launch is nowhere in the recording.
void StepMaker::find_unlaunched() {
  std::set<std::int64_t> known;
  for (const Call& call : recording_.calls)
    if (call.kind == CallKind::runtime && call.correlation) known.insert(*call.correlation);
  for (std::size_t i = 0; i < recording_.work.size(); ++i) {
    const DeviceWork& work = recording_.work[i];
    if (window_.holds(work.start) && (!work.correlation || !known.contains(*work.correlation)))
      unlaunched_.push_back(i);
  }
  std::ranges::stable_sort(unlaunched_, {},
                           [&](std::size_t i) { return recording_.work[i].start; });
}

/// The last op of another thread that did a whole piece since `thread` stopped, or none.
std::size_t StepMaker::hand_over(std::size_t t, Duration until) {
  const Duration since = thread(t).end;
  std::size_t found = none;
  for (const auto& [other, state] : threads_)
    if (other != t && state.last != none && state.start >= since && state.end <= until &&
        (found == none || end_[found] < state.end))
      found = state.last;
  return found;
}

/// When the host's own part of a launch ends: a copy may run from then on, while its call goes on.
Duration StepMaker::busy_until(const Call& call) const {
  if (waits(call)) return call.start;
  const auto found = call.correlation ? launched_.find(*call.correlation) : launched_.end();
  if (found == launched_.end()) return call.end();
  const DeviceWork& work = recording_.work[found->second.back()];
  if (work.kind != WorkKind::copy) return call.end();
  const auto stream = streams_.find({work.device, work.stream});
  const bool idle = stream == streams_.end() || stream->second.end <= call.start;
  if (idle) return std::clamp(work.start, call.start, call.end());
  return work.start > call.end() ? call.end() : call.start;
}

/// The thread's time up to `until`, since its last piece or since another thread handed over.
void StepMaker::host_op(const Piece& piece, Duration until) {
  Thread& t = thread(piece.thread);
  const std::size_t from = hand_over(piece.thread, piece.start);
  const Duration since = from == none ? t.end : std::max(t.end, end_[from]);
  t.start = since;
  if (from != none) ++step_.hand_overs;
  if (options_.host) {
    const bool on_gpu = !recording_.work.empty();
    t.last = add({.name = joined({piece.module, piece.op, on_gpu ? "launch" : ""}),
                  .kind = on_gpu ? "Launch" : piece.op,
                  .lane = lanes_.of_thread(piece.thread),
                  .module = piece.module,
                  .compute = std::max(Duration{}, until - since),
                  .phase = piece.phase,
                  .after = {t.last, from}},
                 until);
  } else if (recording_.work.empty()) {
    t.last = add({.name = joined({piece.module, piece.op}),
                  .kind = piece.op,
                  .lane = lanes_.of_thread(piece.thread),
                  .module = piece.module,
                  .compute = piece.end - piece.start,
                  .phase = piece.phase,
                  .after = {t.last, from}},
                 until);
  }
  t.end = std::max(t.end, until);
}

/// The collective that the kernel is part of; nothing if it is none, or its size is not known.
std::optional<RecordedCollective> StepMaker::collective(const DeviceWork& work, const Call* call) {
  const auto kind = collective_kind(work);
  if (!kind || !options_.collectives) return std::nullopt;
  std::optional<Communication> args = work.communication;
  for (; !args && call != nullptr; call = call->parent ? &recording_.calls[*call->parent] : nullptr)
    args = call->communication;
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

void StepMaker::launch(const DeviceWork& work, const Call* call, const Piece* piece) {
  ++step_.work;
  step_.work_time += work.duration;
  Stream& stream = streams_[{work.device, work.stream}];
  std::vector<std::size_t> after{stream.last};
  if (call != nullptr) {
    ++step_.joined;
    step_.joined_time += work.duration;
    Thread& t = thread(call->thread);
    if (options_.host) after.push_back(t.last);
    for (const std::size_t a : t.awaited)
      if (a != stream.last && end_[a] <= work.start + rounding) after.push_back(a);
    t.awaited.clear();
  }
  Duration gap{};
  const bool queued = stream.last != none && (call == nullptr || call->end() < stream.end);
  if (queued && work.start > stream.end) gap = std::min(most_gap, work.start - stream.end);
  const auto met = collective(work, call);
  const bool goes_on = options_.level == Level::op && piece != nullptr && stream.piece == piece_ &&
                       !met && work.kind != WorkKind::copy && after.size() <= 2;
  if (!met) step_.gaps += gap;
  const std::string kind = work.kind == WorkKind::copy   ? "Copy"
                           : is_nccl(work)               ? kernel_name(work.name)
                           : piece != nullptr            ? piece->op
                           : work.kind == WorkKind::fill ? "Fill"
                                                         : kernel_name(work.name);
  if (goes_on) {
    step_.ops[stream.last].compute += work.duration + gap;
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
        work.end());
  }
  stream.piece = met || work.kind == WorkKind::copy || piece == nullptr ? none : piece_;
  stream.end = std::max(stream.end, work.end());
  if (call != nullptr) thread(call->thread).launched = stream.last;
}

void StepMaker::wait(const Call& call, const Piece& piece) {
  Thread& t = thread(piece.thread);
  std::vector<std::size_t> after{t.last};
  Duration latest = busy_until(call);
  for (const auto& [key, stream] : streams_) {
    if (stream.last == none || stream.end > call.end() + rounding) continue;
    after.push_back(stream.last);
    latest = std::max(latest, stream.end);
  }
  if (options_.host)
    t.last = add({.name = joined({piece.module, piece.op, "wait"}),
                  .kind = "Wait",
                  .lane = lanes_.of_thread(piece.thread),
                  .module = piece.module,
                  .compute = std::max(Duration{}, call.end() - latest),
                  .phase = piece.phase,
                  .after = std::move(after)},
                 call.end());
  t.end = std::max(t.end, call.end());
}

void StepMaker::unlaunched_before(Duration at) {
  for (; next_unlaunched_ < unlaunched_.size(); ++next_unlaunched_) {
    const DeviceWork& work = recording_.work[unlaunched_[next_unlaunched_]];
    if (work.start >= at) return;
    launch(work, nullptr, nullptr);
  }
}

void StepMaker::run(const Piece& piece) {
  unlaunched_before(piece.start);
  ++piece_;
  Duration until = piece.end;
  if (!recording_.work.empty()) until = busy_until(recording_.calls[piece.calls.back()]);
  host_op(piece, until);
  for (const std::size_t c : piece.calls) {
    const Call& call = recording_.calls[c];
    if (call.kind != CallKind::runtime) continue;
    Thread& t = thread(piece.thread);
    if (records_event(call)) t.recorded = t.launched;
    if (awaits_event(call) && t.recorded != none) t.awaited.push_back(t.recorded);
    const bool blocks = waits(call) || busy_until(call) < call.end();
    if (const auto found = call.correlation ? launched_.find(*call.correlation) : launched_.end();
        found != launched_.end())
      for (const std::size_t w : found->second) launch(recording_.work[w], &call, &piece);
    if (blocks) wait(call, piece);
  }
}

/// What the main thread does after its last piece.
void StepMaker::end_of_step() {
  step_.recorded = window_.end - window_.start;
  for (const auto& [key, stream] : streams_)
    step_.recorded = std::max(step_.recorded, stream.end - window_.start);
  if (!options_.host) return;
  const std::size_t main = lanes_.main_thread();
  Thread& t = thread(main);
  const std::size_t from = hand_over(main, window_.end);
  const Duration since = from == none ? t.end : std::max(t.end, end_[from]);
  if (since >= window_.end) return;
  add({.name = "end of the step",
       .kind = "Host",
       .lane = lanes_.of_thread(main),
       .compute = window_.end - since,
       .phase = Phase::update,
       .after = {t.last, from}},
      window_.end);
}

Step StepMaker::make() {
  find_unlaunched();
  for (const Piece& piece : host_pieces(recording_, window_, launched_, options_.level)) run(piece);
  unlaunched_before(Duration::max());
  if (!step_.ops.empty()) end_of_step();
  return std::move(step_);
}

}  // namespace

Step make_step(const Recording& recording, const Window& window, const StepOptions& options) {
  return StepMaker(recording, window, options).make();
}

}  // namespace baechi::kineto
