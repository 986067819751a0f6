#include "scenarios/studies/what_if/path_times.h"

#include "sim/graph/analysis.h"

namespace baechi {
namespace {

/// The category of `op`.
PathTime path_kind(const OpGraph& graph, OpId op) {
  if (graph.collective_of(op) != no_collective) return PathTime::collective;
  if (on_host(graph, op)) return PathTime::host;
  return graph.lanes()[index(graph.lane(op))] == "copy" ? PathTime::transfer : PathTime::compute;
}

}  // namespace

PathTimes path_times(const Causes& causes, const OpGraph& graph) {
  PathTimes times{};
  const auto add = [&](PathTime to, Duration time) { times[static_cast<std::size_t>(to)] += time; };
  const OpId last = causes.last_op();
  std::vector<PathPart> open = last == no_op ? std::vector<PathPart>{} : causes.chain(last);
  while (!open.empty()) {
    const PathPart part = open.back();
    open.pop_back();
    switch (part.kind) {
      case PathKind::compute:
      case PathKind::collective:
        add(path_kind(graph, part.op), part.length());
        break;
      case PathKind::transfer:
        add(PathTime::transfer, part.length());
        break;
      case PathKind::wait_channel:
        add(PathTime::waiting, part.length());
        break;
      case PathKind::wait_device: {
        if (part.behind == no_op || part.length() <= Duration{}) {
          add(PathTime::waiting, part.length());
          break;
        }
        for (const PathPart& before : causes.chain(part.behind, part.start)) open.push_back(before);
        add(PathTime::waiting, part.end - causes.end(part.behind));
        break;
      }
    }
  }
  return times;
}

}  // namespace baechi
