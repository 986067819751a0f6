#include "traces/import/kineto/host_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace baechi::kineto {
namespace {

/// A frame around operators, which is none itself.
bool is_frame(const Call& call) {
  return call.kind != CallKind::op || call.name.starts_with("autograd::engine");
}

/// A record_function of the user's that tells where in the model a call is.
bool is_scope(const Call& call) {
  return call.kind == CallKind::annotation && !call.name.starts_with("ProfilerStep#") &&
         !call.name.starts_with("Optimizer.") && !call.name.starts_with("enumerate(DataLoader)");
}

/// The outermost op around the call `i`; without one, the call itself.
std::size_t outermost_op(const Recording& recording, std::size_t i) {
  std::size_t found = i;
  for (std::optional<std::size_t> at = i; at; at = recording.calls[*at].parent)
    if (!is_frame(recording.calls[*at])) found = *at;
  return found;
}

Phase phase_of(const Recording& recording, std::size_t i) {
  for (std::optional<std::size_t> at = i; at; at = recording.calls[*at].parent) {
    const std::string& name = recording.calls[*at].name;
    if (name.starts_with("Optimizer.")) return Phase::update;
    if (name.starts_with("autograd::engine")) return Phase::backward;
  }
  return Phase::forward;
}

std::string annotations(const Recording& recording, std::size_t i) {
  std::string path;
  for (std::optional<std::size_t> at = i; at; at = recording.calls[*at].parent)
    if (is_scope(recording.calls[*at]))
      path = fmt::format("{}{}{}", recording.calls[*at].name, path.empty() ? "" : ".", path);
  return path;
}

/// "conv2d" of "aten::conv2d".
std::string short_name(const std::string& name) {
  const std::size_t colons = name.rfind("::");
  return colons == std::string::npos || colons + 2 == name.size() ? name : name.substr(colons + 2);
}

/// The modules around one moment after the other.
class Modules {
 public:
  explicit Modules(const std::vector<Call>& modules) : modules_(modules) {}
  std::string around(Duration at) {
    for (; next_ < modules_.size() && modules_[next_].start <= at; ++next_)
      open_.push_back(&modules_[next_]);
    std::erase_if(open_, [&](const Call* m) { return m->end() <= at; });
    std::string path;
    for (const Call* m : open_) path += (path.empty() ? "" : ".") + m->name;
    return path;
  }

 private:
  const std::vector<Call>& modules_;  // by start
  std::size_t next_ = 0;
  std::vector<const Call*> open_;
};

void describe(const Recording& recording, std::vector<Piece>& pieces) {
  Modules modules(recording.modules);
  for (Piece& piece : pieces) {
    const std::size_t call = piece.calls.back();
    piece.op = short_name(recording.calls[piece.outermost].name);
    piece.phase = phase_of(recording, call);
    piece.module = modules.around(piece.start);
    const std::string scope = annotations(recording, call);
    if (!scope.empty()) piece.module = piece.module.empty() ? scope : scope + "." + piece.module;
  }
}

/// Cuts at calls of the driver.
std::vector<Piece> launches(const Recording& recording, const Window& window,
                            const Launched& launched, Level level) {
  std::vector<Piece> pieces;
  std::map<std::size_t, Piece> unfinished;  // by thread: calls that only concern events
  std::map<std::size_t, std::size_t> last;  // by thread: its last piece, if it may go on
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const Call& call = recording.calls[i];
    if (call.kind != CallKind::runtime || !window.holds(call.start)) continue;
    const bool launches = call.correlation && launched.contains(*call.correlation);
    const bool cuts = launches || waits(call);
    if (!cuts && !records_event(call) && !awaits_event(call)) continue;
    const std::size_t op = outermost_op(recording, i);
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
    pieces.push_back(std::move(piece));
    unfinished.erase(call.thread);
  }
  return pieces;
}

std::vector<Piece> ops(const Recording& recording, const Window& window) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const Call& call = recording.calls[i];
    if (is_frame(call) || !window.holds(call.start) || outermost_op(recording, i) != i) continue;
    pieces.push_back({.calls = {i},
                      .thread = call.thread,
                      .start = call.start,
                      .end = call.end(),
                      .outermost = i});
  }
  return pieces;
}

}  // namespace

Launched by_correlation(const Recording& recording) {
  Launched launched;
  for (std::size_t i = 0; i < recording.work.size(); ++i)
    if (const auto c = recording.work[i].correlation; c && *c != 0) launched[*c].push_back(i);
  return launched;
}

bool waits(const Call& call) {
  return call.kind == CallKind::runtime && call.name.find("Synchronize") != std::string::npos;
}
bool records_event(const Call& call) {
  return call.name.find("EventRecord") != std::string::npos;
}
bool awaits_event(const Call& call) {
  return call.name.find("StreamWaitEvent") != std::string::npos;
}

std::vector<Piece> host_pieces(const Recording& recording, const Window& window,
                               const Launched& launched, Level level) {
  std::vector<Piece> pieces = recording.work.empty() ? ops(recording, window)
                                                     : launches(recording, window, launched, level);
  std::ranges::stable_sort(pieces, {}, &Piece::start);
  describe(recording, pieces);
  return pieces;
}

}  // namespace baechi::kineto
