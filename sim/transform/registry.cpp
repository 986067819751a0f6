#include <algorithm>
#include <vector>

#include "sim/transform/transform.h"

namespace baechi {

std::unique_ptr<Transform> make_colocate(Options&);
std::unique_ptr<Transform> make_coplace(Options&);
std::unique_ptr<Transform> make_fuse(Options&);
std::unique_ptr<Transform> make_forward_only(Options&);
std::unique_ptr<Transform> make_baechi(Options&);
std::unique_ptr<Transform> make_prune(Options&);
std::unique_ptr<Transform> make_split_sums(Options&);
std::unique_ptr<Transform> make_control_edges(Options&);

std::span<const TransformEntry> transforms() {
  static constexpr TransformEntry table[] = {
      {"colocate", "groups by TensorFlow's rules: gradients, variables, updates",
       "TensorFlow 1; Baechi, SoCC'20, section 3.1", TransformUse::placing, make_colocate},
      {"coplace", "an op that one other op reads goes where that one goes",
       "Baechi, SoCC'20, section 3.1", TransformUse::placing, make_coplace},
      {"fuse", "neighbours of one group become one op", "Baechi, SoCC'20, section 3.1",
       TransformUse::placing, make_fuse},
      {"forward_only", "backward and update ops go with their forward op, unseen by the placer",
       "Baechi, SoCC'20, section 3.1", TransformUse::placing, make_forward_only},
      {"baechi", "the paper's bundle: colocate, forward_only, coplace, fuse", "Baechi, SoCC'20",
       TransformUse::placing, make_baechi},
      {"prune", "drops ops without any edge", "Baechi's code", TransformUse::model, make_prune},
      {"control_edges", "what control dependencies between devices cost", "Baechi's code",
       TransformUse::model, make_control_edges},
      {"split_sums", "sums of terms from several devices are added on each of them first",
       "TensorFlow 1's gradients", TransformUse::placed, make_split_sums},
  };
  return table;
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
