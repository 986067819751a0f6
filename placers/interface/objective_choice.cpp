#include "placers/interface/objective_choice.h"

#include <utility>

namespace baechi {

ObjectiveChoice read_objective(Options& options) {
  const Options::Value* given =
      options.raw("objective", "the objective to minimise ('baechi list objectives')");
  if (given == nullptr) return {"step_time", make_objective("step_time", Options("step_time"))};
  std::string name = given->text;
  std::map<std::string, Options::Value> values;
  if (given->children.size() == 1 && !given->children.front().first.empty()) {
    name = given->children.front().first;
    for (const auto& [key, value] : given->children.front().second.children)
      values.emplace(key, value);
  }
  return {name, make_objective(name, Options(name, std::move(values)), given->where)};
}

}  // namespace baechi
