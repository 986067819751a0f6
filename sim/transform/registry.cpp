#include <algorithm>
#include <vector>

#include "sim/transform/transform.h"

namespace baechi {

std::span<const TransformEntry> transforms() {
  return {};
}

std::unique_ptr<Transform> make_transform(std::string_view name, Options options,
                                          const std::string& where) {
  const auto it = std::ranges::find(transforms(), name, &TransformEntry::name);
  if (it == transforms().end()) {
    std::vector<std::string> known;
    for (const TransformEntry& entry : transforms()) known.emplace_back(entry.name);
    throw InputError(fmt::format("{}no transform '{}'{} (transforms: {})", at(where), name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
  }
  auto transform = it->make(options);
  options.finish();
  return transform;
}

}  // namespace baechi
