#include "scenarios/studies/what_if/what_if.h"

#include <filesystem>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/what_if_files.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/experiment.h"
#include "sim/graph/analysis.h"
#include "sim/transform/what_if/what_if.h"

namespace baechi {
namespace {

PathTime path_kind(const OpGraph& graph, OpId op) {
  if (graph.collective_of(op) != no_collective) return PathTime::collective;
  if (on_host(graph, op)) return PathTime::host;
  return graph.lanes()[index(graph.lane(op))] == "copy" ? PathTime::transfer : PathTime::compute;
}

constexpr std::string_view together = "all together";

/// Parses "amp" or "data_parallel:replicas=16,mode=zero3".
WhatIfQuestion read_question(const std::string& text) {
  const std::size_t colon = text.find(':');
  Options::Value with;
  if (colon != std::string::npos)
    for (const std::string& assignment : split_at_commas(text.substr(colon + 1))) {
      const std::size_t equals = assignment.find('=');
      if (equals == std::string::npos || equals == 0)
        throw InputError(fmt::format("RULES {}: '{}' is not key=value", text, assignment));
      with.children.emplace_back(
          assignment.substr(0, equals),
          parse_yaml(assignment.substr(equals + 1), fmt::format("RULES {}", text)));
    }
  const std::string file = text.substr(0, colon);
  std::string name = std::filesystem::path(file).stem().string();
  if (colon != std::string::npos) name += text.substr(colon);
  WhatIfChoice choice = what_if_choice(file, with);
  return {name, {std::move(choice.transform)}, choice.every};
}

/// The device with the largest ratio of peak to memory; ties: the first.
DeviceId fullest(const StepResult& result, const Cluster& cluster) {
  DeviceId most{};
  const auto share = [&](DeviceId d) {
    return static_cast<double>(result.devices[d].peak.count) /
           static_cast<double>(std::max<std::int64_t>(1, cluster.device(d).memory.count));
  };
  for (const DeviceId d : cluster.devices())
    if (share(d) > share(most)) most = d;
  return most;
}

WhatIfRow answer(const std::string& name, std::span<const TransformChoice> transforms,
                 const std::shared_ptr<const Trace>& trace, const Scenario& point) {
  WhatIfRow row{.name = name};
  const auto costed =
      std::make_shared<const CostedGraph>(std::make_shared<const PreparedGraph>(prepare(
                                              {trace, &trace->graph}, point.cluster, transforms)),
                                          point.cluster);
  row.samples =
      costed->graph->batches * static_cast<double>(std::max<std::int64_t>(trace->batch, 1));
  EngineOptions unlimited = point.engine;
  unlimited.enforce_memory = false;
  try {
    const Placement placement = Experiment(costed, point.engine, point.profile)
                                    .place(*point.placers.front().placer, point.seeds.front());
    row.fits = !Experiment(costed, point.engine).step(placement).simulate().oom;
    const ExperimentStep step = Experiment(costed, unlimited).step(placement);
    Timeline timeline;
    std::vector<StepObserver*> observers{&timeline};
    const StepResult result = step.simulate(observers);
    const Problem problem = step.problem();
    row.step = result.makespan;
    row.path = path_times(Causes(problem, step.placement(), timeline), problem.graph);
    const DeviceId full = fullest(result, problem.cluster);
    row.peak = result.devices[full].peak;
    row.device = problem.cluster.device(full).name;
    row.limit = problem.cluster.device(full).memory;
  } catch (const InfeasibleError& e) {
    row.infeasible = e.what();
  }
  return row;
}

/// The mean of `every` steps, one of which is `one` and all others `usual`: times to the
/// nanosecond, the larger memory.
WhatIfRow mean(const WhatIfRow& usual, const WhatIfRow& one, std::int64_t every) {
  if (!usual.has_step()) return usual;
  if (!one.has_step()) return one;
  const auto share = [](const WhatIfRow& row) {
    return static_cast<double>(row.peak.count) /
           static_cast<double>(std::max<std::int64_t>(1, row.limit.count));
  };
  WhatIfRow row = share(usual) > share(one) ? usual : one;
  row.name = one.name;
  row.fits = usual.fits && one.fits;
  Duration sum_usual{}, sum_one{}, before{};
  for (std::size_t i = 0; i < row.path.size(); ++i) {
    sum_usual += usual.path[i];
    sum_one += one.path[i];
    const Duration so_far = sum_usual + (sum_one - sum_usual) / every;
    row.path[i] = so_far - before;
    before = so_far;
  }
  row.step = usual.step + (one.step - usual.step) / every;
  return row;
}

WhatIfRow what_if_row(const WhatIfQuestion& question, const std::shared_ptr<const Trace>& trace,
                      const Scenario& point) {
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  try {
    WhatIfRow row = answer(question.name, question.transforms, trace, point);
    if (question.every == 1) return row;
    return mean(answer(question.name, question.otherwise, trace, point), row, question.every);
  } catch (const NothingSelected& e) {
    return {.name = question.name, .selects_none = first_line(e.what())};
  } catch (const InputError& e) {
    if (question.name != together) throw;
    return {.name = question.name, .refused = first_line(e.what())};
  }
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

double WhatIfRow::samples_per_second() const {
  return step > Duration{} ? samples * 1e6 / to_us(step) : 0.0;
}

std::string_view WhatIfRow::verdict() const {
  if (!refused.empty()) return "impossible";
  if (!infeasible.empty()) return "infeasible";
  if (!selects_none.empty()) return "does not apply";
  return fits ? "fits" : "out of memory";
}

std::optional<double> WhatIfRow::change_from(const WhatIfRow& base) const {
  if (!has_step() || !base.has_step() || base.step <= Duration{}) return std::nullopt;
  return to_us(step) / to_us(base.step) - 1.0;
}

std::vector<WhatIfQuestion> what_if_questions(const Scenario& point,
                                              const std::vector<std::string>& rules) {
  Mistakes mistakes;
  std::vector<WhatIfQuestion> alone;
  for (const std::string& text : rules)
    mistakes.attempt([&] { alone.push_back(read_question(text)); });
  mistakes.throw_if_any();
  WhatIfQuestion all{.name = std::string(together), .transforms = {}};
  std::size_t periods = 0;
  for (const WhatIfQuestion& q : alone) {
    all.transforms.push_back(q.transforms.front());
    if (q.every == 1) all.otherwise.push_back(q.transforms.front());
    all.every *= q.every;
    periods += q.every > 1 ? 1U : 0U;
  }
  if (periods > 1) throw InputError("RULES: two files have the key 'every': predict one at a time");
  if (alone.size() > 1) alone.push_back(std::move(all));
  alone.insert(alone.begin(), WhatIfQuestion{.name = "base", .transforms = {}});
  for (WhatIfQuestion& q : alone)
    for (auto* transforms : {&q.transforms, &q.otherwise})
      transforms->insert(transforms->begin(), point.transforms.begin(), point.transforms.end());
  return alone;
}

std::vector<WhatIfRow> what_if_rows(std::vector<WhatIfQuestion> questions,
                                    const std::shared_ptr<const Trace>& trace,
                                    const Scenario& point,
                                    const std::function<void(const std::string&)>& begin) {
  std::vector<WhatIfRow> rows;
  WhatIfQuestion& last = questions.back();
  for (const WhatIfQuestion& question : questions) {
    if (begin) begin(question.name);
    rows.push_back(what_if_row(question, trace, point));
    if (rows.back().selects_none.empty() || question.name == together) continue;
    for (auto* transforms : {&last.transforms, &last.otherwise})
      if (last.name == together)
        std::erase_if(*transforms, [&](const TransformChoice& choice) {
          return choice.transform == question.transforms.back().transform;
        });
  }
  return rows;
}

}  // namespace baechi
