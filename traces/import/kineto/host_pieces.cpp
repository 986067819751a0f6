#include <fmt/ranges.h>

#include <set>

#include "traces/import/kineto/step.h"

namespace baechi::kineto {
namespace {

constexpr std::size_t most_scopes = 64;

/// Whether the call is a user's record_function, which names a part of the model.
bool is_scope(const Call& call) {
  return call.kind == CallKind::annotation && !call.name.starts_with("ProfilerStep#") &&
         !call.name.starts_with("Optimizer.") && !call.name.starts_with("enumerate(DataLoader)");
}

/// "conv2d" of "aten::conv2d".
std::string short_name(const std::string& name) {
  const std::size_t colons = name.rfind("::");
  return colons == std::string::npos || colons + 2 == name.size() ? name : name.substr(colons + 2);
}

/// Finds the modules that are open at a time; queries are in ascending order.
class Modules {
 public:
  explicit Modules(const std::vector<Call>& modules) : modules_(modules) {}
  /// The path of at most 64 open modules, outermost first.
  std::string around(Duration at) {
    for (; next_ < modules_.size() && modules_[next_].start <= at; ++next_) {
      open_.insert(next_);
      ends_.emplace(modules_[next_].end(), next_);
    }
    for (; !ends_.empty() && ends_.begin()->first <= at; ends_.erase(ends_.begin()))
      open_.erase(ends_.begin()->second);
    constexpr std::size_t most = 64;
    std::string path;
    std::size_t count = 0;
    for (auto m = open_.begin(); m != open_.end() && count < most; ++m, ++count)
      path += (path.empty() ? "" : ".") + modules_[*m].name;
    return path;
  }

 private:
  const std::vector<Call>& modules_;  // by start
  std::size_t next_ = 0;
  std::set<std::size_t> open_;
  std::set<std::pair<Duration, std::size_t>> ends_;  // of open_
};

void describe(const Recording& recording, const std::vector<CallContext>& contexts,
              std::vector<Piece>& pieces) {
  Modules modules(recording.modules);
  for (Piece& piece : pieces) {
    const std::size_t call = piece.calls.back();
    piece.op = short_name(recording.calls[piece.outermost].name);
    piece.phase = contexts[call].phase;
    piece.module = modules.around(piece.start);
    const std::string scope = scopes(recording, contexts, call);
    if (!scope.empty()) piece.module = piece.module.empty() ? scope : scope + "." + piece.module;
  }
}

/// Pieces that end at driver calls.
std::vector<Piece> launches(const Recording& recording, const std::vector<CallContext>& contexts,
                            Duration end, const Launched& launched, Level level) {
  std::vector<Piece> pieces;
  std::map<std::size_t, Piece> unfinished;  // by thread: driver calls since its last piece
  std::map<std::size_t, std::size_t> last;  // by thread: its last piece, if it can be extended
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const Call& call = recording.calls[i];
    if (call.kind != CallKind::runtime || call.start >= end) continue;
    const bool launches = call.correlation && launched.contains(*call.correlation);
    const bool cuts = launches || waits(call);
    if (!cuts && !records_event(call) && !awaits_event(call)) continue;
    const std::size_t op = contexts[i].op;
    const auto before = last.find(call.thread);
    if (level == Level::op && before != last.end() && op != i &&
        pieces[before->second].outermost == op && !waits(call)) {
      pieces[before->second].calls.push_back(i);
      if (cuts) pieces[before->second].end = call.end();
      continue;
    }
    Piece& piece = unfinished[call.thread];
    if (piece.calls.empty()) piece.start = call.start;
    piece.calls.push_back(i);
    if (!cuts) continue;
    piece.thread = call.thread;
    piece.end = call.end();
    piece.outermost = op;
    last[call.thread] = pieces.size();
    if (waits(call)) last.erase(call.thread);
    pieces.push_back(std::exchange(piece, {}));
  }
  return pieces;
}

std::vector<Piece> ops(const Recording& recording, const std::vector<CallContext>& contexts,
                       const Window& window) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const Call& call = recording.calls[i];
    if (is_frame(call) || !window.holds(call.start) || contexts[i].op != i) continue;
    pieces.push_back({.calls = {i},
                      .thread = call.thread,
                      .start = call.start,
                      .end = call.end(),
                      .outermost = i});
  }
  return pieces;
}

}  // namespace

bool is_frame(const Call& call) {
  return call.kind != CallKind::op || call.name.starts_with("autograd::engine");
}

std::vector<CallContext> call_contexts(const Recording& recording) {
  std::vector<CallContext> all;
  all.reserve(recording.calls.size());
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const Call& call = recording.calls[i];  // its parent is before it
    CallContext s = call.parent ? all[*call.parent] : CallContext{};
    if (!s.in_op) s.op = i;
    s.in_op = s.in_op || !is_frame(call);
    if (is_scope(call)) s.scope = i;
    if (call.communication) s.communication = i;
    if (call.name.starts_with("Optimizer.")) s.phase = Phase::update;
    if (call.name.starts_with("autograd::engine")) s.phase = Phase::backward;
    all.push_back(s);
  }
  return all;
}

std::string scopes(const Recording& recording, const std::vector<CallContext>& contexts,
                   std::size_t i) {
  std::vector<std::string_view> names;
  for (std::size_t at = contexts[i].scope; at != none && names.size() < most_scopes;) {
    names.push_back(recording.calls[at].name);
    const auto parent = recording.calls[at].parent;
    at = parent ? contexts[*parent].scope : none;
  }
  std::ranges::reverse(names);
  return fmt::format("{}", fmt::join(names, "."));
}

Launched by_correlation(const Recording& recording) {
  Launched launched;
  for (std::size_t i = 0; i < recording.work.size(); ++i)
    if (const auto c = recording.work[i].correlation; c && *c != 0) launched[*c].push_back(i);
  return launched;
}

bool waits(const Call& call) {
  return call.kind == CallKind::runtime && call.name.find("Synchronize") != std::string::npos;
}
bool records_event(const Call& call) { return call.name.find("EventRecord") != std::string::npos; }
bool awaits_event(const Call& call) {
  return call.name.find("StreamWaitEvent") != std::string::npos;
}

std::vector<Piece> host_pieces(const Recording& recording, const std::vector<CallContext>& contexts,
                               const Window& window, const Launched& launched, Level level) {
  std::vector<Piece> pieces =
      recording.work.empty()
          ? ops(recording, contexts, window)
          : launches(recording, contexts, std::min(window.end, window.host_end), launched, level);
  std::ranges::stable_sort(pieces, {}, &Piece::start);
  describe(recording, contexts, pieces);
  // Streams run work in launch order.
  std::ranges::stable_sort(pieces, {},
                           [&](const Piece& p) { return recording.calls[p.calls.back()].start; });
  return pieces;
}

namespace {

constexpr std::size_t most_of_a_kind = 20;  // a graph has at most 64 lanes

struct Use {
  Duration time{};
  std::size_t work = 0, nccl = 0, copies = 0;
};

}  // namespace

Lanes::Lanes(const Recording& recording, const Window& window) {
  const bool on_gpu = !recording.work.empty();
  std::map<std::size_t, std::size_t> calls;
  for (const Call& call : recording.calls) {
    std::size_t& n = calls[call.thread];
    if (window.holds(call.start) && (call.kind == CallKind::runtime || !on_gpu)) ++n;
  }
  std::vector<std::pair<std::size_t, std::size_t>> threads(calls.begin(), calls.end());
  std::ranges::stable_sort(threads, std::ranges::greater{}, [](const auto& t) { return t.second; });
  if (!threads.empty()) main_thread_ = threads.front().first;
  for (std::size_t i = 0; i < threads.size(); ++i)
    threads_[threads[i].first] =
        i == 0 ? (on_gpu ? "host" : "compute")
               : fmt::format("{} {}", on_gpu ? "host" : "thread", std::min(i + 1, most_of_a_kind));

  std::map<std::pair<std::int64_t, std::int64_t>, Use> use;
  for (const DeviceWork& work : recording.work) {
    Use& u = use[{work.device, work.stream}];
    u.time += work.duration;
    ++u.work;
    u.nccl += is_nccl(work) ? 1U : 0U;
    u.copies += work.kind == WorkKind::copy ? 1U : 0U;
  }
  std::map<std::int64_t, std::pair<std::int64_t, Duration>> busiest;  // by device
  for (const auto& [key, u] : use) {
    if (2 * u.nccl > u.work) continue;
    const auto [it, added] = busiest.emplace(key.first, std::pair(key.second, u.time));
    if (!added && u.time > it->second.second) it->second = {key.second, u.time};
  }
  std::set<std::pair<std::int64_t, std::string>> taken;
  std::size_t further = 0;
  for (const auto& [key, u] : use) {
    const auto [device, stream] = key;
    std::string name = 2 * u.nccl > u.work                  ? "comm"
                       : busiest.at(device).first == stream ? "compute"
                       : 2 * u.copies > u.work              ? "copy"
                                                            : fmt::format("stream {}", stream);
    if (!taken.emplace(device, name).second) name = fmt::format("{} {}", name, stream);
    if (name.find(' ') != std::string::npos && ++further > most_of_a_kind) name = "other streams";
    streams_[key] = name;
  }
}

std::optional<std::pair<Duration, std::size_t>> Stream::last_ended(Duration at) const {
  const auto after = std::ranges::upper_bound(ran, at, {}, [](const auto& r) { return r.first; });
  return after == ran.begin() ? std::nullopt : std::optional(*(after - 1));
}

std::vector<std::pair<Duration, std::size_t>> Streams::ended(Duration at, const Stream* but) const {
  std::vector<std::pair<Duration, std::size_t>> found;
  for (const auto& [key, stream] : streams_)
    if (const auto last = &stream == but ? std::nullopt : stream.last_ended(at))
      found.push_back(*last);
  return found;
}

}  // namespace baechi::kineto
