#include "placers/interface/placer.h"

namespace baechi {

std::string out_of_memory(const Problem& p, const Placement& placement) {
  const StepResult step = simulate(p, placement);
  if (!step.oom) return "";
  return fmt::format(
      "the placement found runs out of memory when simulated: {} at {}, {} '{}' needs {}, {} are "
      "free",
      p.cluster.device(step.oom->device).name, to_text(step.oom->at.time_since_epoch()),
      step.oom->transfer ? "the copy of an output of op" : "op", p.graph.name(step.oom->op),
      to_text(step.oom->needed), to_text(step.oom->free));
}

ObjectiveChoice read_objective(Options& options) {
  const Options::Value* given = options.raw(
      "objective", "the objective to minimise ('baechi list objectives'), or exec:PATH, a program");
  if (given == nullptr) return {"step_time", make_objective("step_time", Options("step_time"))};
  std::string name = given->text;
  std::map<std::string, Options::Value> values;
  if (given->children.size() == 1 && !given->children.front().first.empty()) {
    name = given->children.front().first;
    for (const auto& [key, value] : given->children.front().second.children)
      values.emplace(key, value);
  }
  constexpr std::string_view program = "exec:";
  if (name.starts_with(program)) {
    values["path"] = {name.substr(program.size()), given->where, {}};
    name = "exec";
  }
  if (name == "exec") {
    Options o(name, std::move(values), options.base());
    ObjectiveChoice choice{name, make_exec_objective(o)};
    o.finish();
    return choice;
  }
  return {name, make_objective(name, Options(name, std::move(values)), given->where)};
}

}  // namespace baechi
