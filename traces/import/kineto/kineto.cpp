#include <deque>
#include <tuple>

#include "traces/import/kineto/step.h"
#include "traces/import/rank_files.h"
#include "traces/importer.h"

namespace baechi::kineto {
namespace {

std::vector<Window> by_profiler(const Recording& recording) {
  std::vector<Window> steps;
  for (const Call& call : recording.calls)
    if (call.name.starts_with("ProfilerStep#"))
      steps.push_back({call.name, call.start, call.end()});
  std::ranges::stable_sort(steps, {}, &Window::start);
  return steps;
}

/// Steps from the end of one optimizer call to the end of the next; the first begins at `from`.
std::vector<Window> by_optimizer(const Recording& recording, Duration from) {
  std::vector<Duration> ends;
  for (const Call& call : recording.calls)
    if (call.name.starts_with("Optimizer.step")) ends.push_back(call.end());
  std::ranges::sort(ends);
  std::vector<Window> steps;
  for (const Duration end : ends) {
    steps.push_back(
        {fmt::format("step {}, by the optimizer's calls", steps.size() + 1), from, end});
    from = end;
  }
  return steps;
}

Window everything(const Recording& recording) {
  Window whole{"the whole recording", Duration::max(), Duration::min()};
  const auto include = [&](Duration start, Duration end) {
    whole.start = std::min(whole.start, start);
    whole.end = std::max(whole.end, std::max(end, start + Duration{1}));
  };
  for (const Call& call : recording.calls) include(call.start, call.end());
  for (const DeviceWork& work : recording.work) include(work.start, work.end());
  return whole;
}

/// The steps of a recording on the host's timeline, in order: by ProfilerStep#..., else by the ends
/// of the optimizer's calls, else one window of the whole recording.
std::vector<Window> steps_of(const Recording& recording) {
  std::vector<Window> steps = by_profiler(recording);
  if (!steps.empty()) return steps;
  const Window whole = everything(recording);
  steps = by_optimizer(recording, whole.start);
  if (steps.size() < 2) return {whole};
  return steps;
}

/// Step `k` from the time when the host has begun it and the GPUs have finished all earlier
/// launches, to that time of the next step: GPUs may lag behind the host by more than a step. Its
/// length is the period of steps. It may begin with work that was launched in an earlier step.
Window period_of(const std::vector<Window>& steps, std::size_t k, const Recording& recording) {
  std::unordered_map<std::int64_t, Duration> launched;  // by correlation
  for (const Call& call : recording.calls)
    if (call.kind == CallKind::runtime && call.correlation.value_or(0) != 0)
      launched.emplace(*call.correlation, call.start);
  const auto launch_of = [&](const DeviceWork& work) -> std::optional<Duration> {
    const auto found = work.correlation ? launched.find(*work.correlation) : launched.end();
    return found == launched.end() ? std::nullopt : std::optional(found->second);
  };
  // Work before a stream's first work with a recorded launch was launched before the recording.
  std::map<std::pair<std::int64_t, std::int64_t>, Duration> first;  // by stream
  for (const DeviceWork& work : recording.work)
    if (launch_of(work)) {
      Duration& start = first.try_emplace({work.device, work.stream}, work.start).first->second;
      start = std::min(start, work.start);
    }
  // When the GPUs have finished all work launched before `t`.
  const auto finished_before = [&](Duration t) {
    Duration end = t;
    for (const DeviceWork& work : recording.work) {
      const auto known = first.find({work.device, work.stream});
      const bool backlog = known != first.end() && work.start < known->second;
      if (backlog || launch_of(work).value_or(work.start) < t) end = std::max(end, work.end());
    }
    return end;
  };
  const Window& step = steps[k];
  const bool last = k + 1 == steps.size();
  if (last && k == 0 && !step.name.starts_with("ProfilerStep#"))
    return step;  // the whole recording
  return {.name = step.name,
          .start = finished_before(step.start),
          .end = finished_before(last ? step.end : steps[k + 1].start),
          .host_end = std::max(steps.back().end, step.end)};
}

/// The last step up to `k` whose period ends within the recorded steps; `k` if there is none.
std::size_t last_covered(const std::vector<Window>& steps, std::size_t k,
                         const Recording& recording) {
  for (std::size_t i = k + 1; i-- > 0;) {
    const Window period = period_of(steps, i, recording);
    if (20 * (period.end - steps.back().end) <= period.end - period.start) return i;
    if (k - i > 20) break;
  }
  return k;
}

/// Index of the last step with at least 90 % of the median step's driver calls (without a GPU: of
/// all calls).
std::size_t last_whole(const std::vector<Window>& steps, const Recording& recording) {
  std::vector<std::size_t> calls(steps.size());
  for (const Call& call : recording.calls) {
    if ((call.kind == CallKind::runtime) == recording.work.empty()) continue;
    const auto after = std::ranges::upper_bound(steps, call.start, {}, &Window::start);
    if (after == steps.begin()) continue;
    const auto step = static_cast<std::size_t>(after - steps.begin()) - 1;
    if (steps[step].holds(call.start)) ++calls[step];
  }
  std::vector<std::size_t> sorted = calls;
  std::ranges::sort(sorted);
  const std::size_t usual = sorted[sorted.size() / 2];
  std::size_t last = steps.size() - 1;
  while (last > 0 && 10 * calls[last] < 9 * usual) --last;
  return last;
}

// Builds a graph of recorded steps, one per rank: ops in lanes, with the recorded order as control
// edges. A recording has no tensors, so all ops of a rank (and GPU) are colocated. Collectives of
// several ranks are matched by group, kind and recorded sequence number, or position in the group
// if no number was recorded.

struct Rank {
  std::string label;  ///< prefix of names: "rank1/"; "" for a single rank
  Step step;
};

/// Group, kind, number of ranks, and sequence number or position of a collective.
using CollectiveKey = std::tuple<std::string, CollectiveKind, std::uint32_t, std::int64_t>;

struct MatchedCollective {
  RecordedCollective collective;
  std::vector<OpId> members;
};

/// The GPU with most kernel time, with which the host's ops are colocated. Ties: the smallest
/// number.
std::int64_t home_of(const Step& step) {
  std::map<std::int64_t, Duration> busy;
  for (const StepOp& op : step.ops)
    if (op.device) busy[*op.device] += op.compute;
  const auto home = std::ranges::max_element(busy, {}, [](const auto& b) { return b.second; });
  return home == busy.end() ? 0 : home->first;
}

class KinetoGraphBuilder {
 public:
  explicit KinetoGraphBuilder(const std::vector<Rank>& ranks) : ranks_(ranks) {}

  OpGraph make(const std::string& path, std::vector<std::string>& notes) {
    for (const Rank& rank : ranks_) add_ops(rank);
    add_collectives(notes);
    return build_graph(std::move(builder_), path);
  }

 private:
  void add_ops(const Rank& rank) {
    const std::int64_t home = home_of(rank.step);
    std::vector<OpId> ids;
    for (const StepOp& op : rank.step.ops) {
      const OpId id = builder_.add_op({.name = rank.label + op.name,
                                       .kind = op.kind,
                                       .compute = op.compute,
                                       .phase = op.phase,
                                       .lane = op.lane,
                                       .module = op.module});
      ids.push_back(id);
      builder_.add_kernel(id, {.traffic = op.bytes});
      for (const std::size_t before : op.after) builder_.add_control(ids[before], id);
      std::string label = rank.label.empty() ? "rank" : rank.label.substr(0, rank.label.size() - 1);
      if (op.device.value_or(home) != home) label += fmt::format(" gpu{}", *op.device);
      builder_.colocate(id, label);
    }
    match_collectives(rank, ids);
  }

  void match_collectives(const Rank& rank, const std::vector<OpId>& ids) {
    std::map<std::tuple<std::string, CollectiveKind, std::uint32_t>, std::int64_t> position;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!rank.step.ops[i].collective) continue;
      const RecordedCollective& m = *rank.step.ops[i].collective;
      const std::int64_t number = position[{m.group, m.kind, m.ranks}]++;
      const CollectiveKey key{m.group, m.kind, m.ranks, m.sequence ? -1 - *m.sequence : number};
      auto [at, added] = joined_.emplace(key, collectives_.size());
      // Disjoint groups may have the same name: a complete collective is not extended.
      const bool full = !added && collectives_[at->second].members.size() >= m.ranks;
      if (added || full) {
        at->second = collectives_.size();
        collectives_.push_back({m, {}});
      }
      MatchedCollective& joined = collectives_[at->second];
      joined.collective.bytes = std::max(joined.collective.bytes, m.bytes);
      joined.members.push_back(ids[i]);
    }
  }

  void add_collectives(std::vector<std::string>& notes) {
    std::size_t whole = 0;
    Bytes bytes{};
    for (const MatchedCollective& joined : collectives_) {
      whole += joined.members.size() == joined.collective.ranks ? 1U : 0U;
      bytes += joined.collective.bytes;
      builder_.add_collective({.kind = joined.collective.kind,
                               .bytes = joined.collective.bytes,
                               .ranks = joined.collective.ranks},
                              joined.members);
    }
    if (collectives_.empty()) return;
    notes.push_back(
        fmt::format("{} collectives of {}; {} have all ranks in these files, missing ranks of the "
                    "others arrive with the ones present; their times are the cluster model's",
                    collectives_.size(), to_text(bytes), whole));
  }

  const std::vector<Rank>& ranks_;
  OpGraphBuilder builder_;
  std::map<CollectiveKey, std::size_t> joined_;  // into collectives_
  std::vector<MatchedCollective> collectives_;   // in the order of their first members
};

struct Settings {
  StepOptions step;
  std::int64_t wanted = 0;
};

/// The step to import: step `wanted` (from 1), or the last complete one if that is 0. `same`: the
/// name of the first rank's step, which the other ranks must have; "" for the first rank.
Window choose_step(const Recording& recording, const std::string& path, std::int64_t wanted,
                   const std::string& same) {
  if (recording.of_simulation)
    throw InputError(
        fmt::format("{}: not a graph, but a timeline of a step that this program simulated: give "
                    "the graph of the step",
                    path));
  if (recording.calls.empty() && recording.work.empty())
    throw InputError(
        fmt::format("{}: no calls and no kernels: record with torch.profiler.profile", path));
  const std::vector<Window> steps = steps_of(recording);
  if (wanted > static_cast<std::int64_t>(steps.size()))
    throw InputError(fmt::format("{}: step {}: the recording has {} ({} to {})", path, wanted,
                                 steps.size(), steps.front().name, steps.back().name));
  if (!same.empty() && steps.front().name.starts_with("ProfilerStep#")) {
    const auto found = std::ranges::find(steps, same, &Window::name);
    if (found != steps.end())
      return period_of(steps, static_cast<std::size_t>(found - steps.begin()), recording);
    throw InputError(fmt::format("{}: no {}, the step of the first rank: it has {} to {}", path,
                                 same, steps.front().name, steps.back().name));
  }
  return period_of(steps,
                   wanted > 0 ? static_cast<std::size_t>(wanted - 1)
                              : last_covered(steps, last_whole(steps, recording), recording),
                   recording);
}

void note_step(const Rank& rank, const Window& window, const Recording& recording,
               std::vector<std::string>& notes) {
  const Step& step = rank.step;
  const std::string who =
      rank.label.empty() ? "" : rank.label.substr(0, rank.label.size() - 1) + ": ";
  notes.push_back(fmt::format("{}{}: {} as recorded", who, window.name, to_text(step.recorded)));
  if (recording.work.empty()) {
    notes.push_back(
        fmt::format("{}no kernels: times are of calls on the CPU; record with "
                    "ProfilerActivity.CUDA to time a GPU",
                    who));
    return;
  }
  notes.push_back(
      fmt::format("{}{}{} of {} kernels, copies and fills matched to their launches, {} of {}; "
                  "their times include {} of gaps between queued ones",
                  10 * step.joined < 9 * step.work ? "warning: " : "", who, step.joined, step.work,
                  to_text(step.joined_time), to_text(step.work_time), to_text(step.gaps)));
  std::size_t overruns = 0;
  Duration cut{};
  const Overrun* largest = nullptr;
  for (const Overrun& overrun : recording.overruns) {
    if (!window.holds(recording.work[overrun.work].start)) continue;
    ++overruns;
    cut += overrun.cut;
    if (largest == nullptr || overrun.cut > largest->cut) largest = &overrun;
  }
  if (largest != nullptr) {
    const DeviceWork& work = recording.work[largest->work];
    notes.push_back(fmt::format(
        "{}{}{} kernels, copies or fills end after the next one of their stream began; {} are cut "
        "off, most of them {} of '{}' on stream {}",
        100 * cut > step.recorded ? "warning: " : "", who, overruns, to_text(cut),
        to_text(largest->cut), work.name.substr(0, 60), work.stream));
  }
  // The step time is known exactly, so a replay that differs shows missing dependencies.
  if (const Duration off = step.replayed - step.recorded;
      step.replayed > Duration{} && 50 * std::max(off, -off) > step.recorded)
    notes.push_back(fmt::format(
        "warning: {}the replayed step takes {}, {:+.1f} % of the recorded period: some "
        "dependencies are not in the recording",
        who, to_text(step.replayed),
        100.0 * static_cast<double>(off.count()) / static_cast<double>(step.recorded.count())));
  if (step.idle > Duration{})
    notes.push_back(
        fmt::format("{}{} of stream idle time without a recorded cause are ops of kind Idle", who,
                    to_text(step.idle)));
  if (step.hand_overs > 0)
    notes.push_back(
        fmt::format("{}{} hand-overs from one thread to another", who, step.hand_overs));
  if (step.unsized > 0)
    notes.push_back(
        fmt::format("warning: {}{} collectives have no size in the recording (args 'In msg "
                    "nelems', 'dtype', 'Group size'): they are ops of their recorded times",
                    who, step.unsized));
}

Trace import_recordings(TextFile& file, const std::vector<std::string>& paths,
                        const Settings& settings) {
  Trace trace{.source = "PyTorch profiler (Kineto)"};
  std::deque<Recording> recordings;
  for (const std::string& path : paths) {
    if (path == file.path()) {
      recordings.push_back(read_recording(file));
      continue;
    }
    TextFile other(path);
    recordings.push_back(read_recording(other));
  }
  if (!recordings.front().device.empty()) trace.source += ", " + recordings.front().device;
  std::vector<Rank> ranks;
  std::string name;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const Window window = choose_step(recordings[i], paths[i], settings.wanted, name);
    if (i == 0) name = window.name;
    ranks.push_back({.label = paths.size() == 1 ? "" : fmt::format("rank{}/", i),
                     .step = make_step(recordings[i], window, settings.step)});
    if (ranks.back().step.ops.empty())
      throw InputError(fmt::format(
          "{}: {} has no op: choose another step (option step), or record a complete one", paths[i],
          window.name));
    note_step(ranks.back(), window, recordings[i], trace.notes);
  }
  trace.notes.emplace_back(
      "a Kineto trace has no tensors: a rank's ops are colocated, in recorded order; with the "
      "execution trace of the same run (importer pytorch) ops can be placed one by one");
  trace.graph = KinetoGraphBuilder(ranks).make(file.path(), trace.notes);
  return trace;
}

}  // namespace
}  // namespace baechi::kineto

namespace baechi {

bool looks_like_kineto(std::string_view beginning) { return kineto::looks_like_kineto(beginning); }

Trace read_kineto(TextFile& file, Options& options) {
  kineto::Settings settings;
  settings.step.level = read_enum(options, "level", kineto::Level::kernel,
                                  "one op per kernel, or per operator such as aten::conv2d");
  settings.step.host = options.get(
      "host", true, "model the host's time as ops in lane host, which launches wait for");
  settings.step.collectives = options.get(
      "collectives", true,
      "NCCL kernels are collectives timed by the cluster model; else ops of recorded times");
  settings.wanted = options.get("step", std::int64_t{0},
                                "number of the step (ProfilerStep#..., or by calls of the "
                                "optimizer), from 1; 0: the last complete one");
  const std::vector<std::string> paths = rank_files(file.path(), options);
  options.finish();
  return kineto::import_recordings(file, paths, settings);
}

}  // namespace baechi
