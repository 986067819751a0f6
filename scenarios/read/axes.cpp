#include "scenarios/read/axes.h"

#include <algorithm>
#include <numeric>

#include "scenarios/read/tree.h"

namespace baechi {

std::size_t count_combinations(std::span<const Axis> axes, std::size_t most) {
  std::size_t n = 1;
  for (const Axis& axis : axes) {
    if (axis.values.empty()) return 0;
    n = n > most / axis.values.size() ? most + 1 : n * axis.values.size();
  }
  return n;
}

void for_each_combination(const std::string& name, const Options::Value& section,
                          std::span<const Axis> axes,
                          const std::function<bool(const Options::Value&)>& visit) {
  if (count_combinations(axes, 1) == 0) return;
  std::vector<std::size_t> widest_first(axes.size());
  std::iota(widest_first.begin(), widest_first.end(), 0U);
  std::ranges::stable_sort(widest_first, {}, [&](std::size_t i) { return axes[i].key.size(); });

  // Usually only the last axis's value changes, unless another axis is below its key.
  const bool last_alone = std::ranges::none_of(
      axes, [&](const Axis& axis) { return axis.key.starts_with(axes.back().key + "."); });
  std::vector<std::size_t> digit(axes.size(), 0);  // into each axis's values
  Options::Value root;
  for (std::size_t changed = 0; true;) {  // the first axis with another value
    if (changed + 1 == axes.size() && last_alone && !root.children.empty()) {
      put(root, axes.back().key, axes.back().values[digit.back()]);
    } else {
      root.children = {{name, section}};
      for (const std::size_t i : widest_first) put(root, axes[i].key, axes[i].values[digit[i]]);
    }
    if (!visit(root.children.front().second)) return;

    changed = axes.size();
    while (changed > 0 && ++digit[changed - 1] == axes[changed - 1].values.size())
      digit[--changed] = 0;
    if (changed-- == 0) return;
  }
}

}  // namespace baechi
