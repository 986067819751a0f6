#include "sim/transform/grouping/fusion.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

/// Colocates the ops of each module, and with them the groups that they were in. A module of depth
/// 2 is named by the first two parts of a path: "layer1.0" of "layer1.0.conv1"; an op of a
/// shallower module is in the group of that module. Ops without a module are unchanged.
class ByModule final : public Transform {
 public:
  explicit ByModule(Options& o)
      : depth_(
            o.get("depth", std::int64_t{0},
                  "number of parts of a module's path that identify a group; 0: the whole path")) {}

  Transformed apply(const OpGraph& graph) const override {
    GroupSets sets(graph);
    std::map<std::string_view, OpId> first;  // of each module
    for (const OpId v : graph.ops()) {
      const std::string_view path = graph.module(v);
      if (path.empty()) continue;
      const auto [known, fresh] = first.try_emplace(beginning(path), v);
      if (!fresh) sets.join(v, known->second);
    }
    return same_ops(sets.regrouped());
  }

 private:
  std::string_view beginning(std::string_view path) const {
    std::size_t end = path.size();
    std::int64_t parts = 0;
    for (std::size_t i = 0; i < path.size() && end == path.size(); ++i)
      if (path[i] == '.' && ++parts == depth_) end = i;
    return path.substr(0, end);
  }

  std::int64_t depth_;
};

}  // namespace

std::unique_ptr<Transform> make_by_module(Options& o) { return std::make_unique<ByModule>(o); }

}  // namespace baechi
