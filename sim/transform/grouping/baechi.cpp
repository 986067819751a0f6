#include "sim/transform/transform.h"

namespace baechi {
namespace {

/// Baechi's preprocessing: colocate, forward_only, coplace, fuse, each optional, in this order.
/// Source: Baechi (SoCC'20), section 3.1.
class Bundle final : public Transform {
 public:
  explicit Bundle(Options& o) {
    const bool colocate = o.get("colocate", true, "groups by TensorFlow's rules");
    const bool forward_only = o.get("forward_only", true, "place forward ops alone");
    const bool coplace = o.get("coplace", true, "ops with one reader go where it goes");
    const bool fuse = o.get("fuse", true, "neighbours of one group become one op");
    const bool force = o.get("force", false, "of forward_only");
    const bool compat = o.get("compat", false, "of fuse");
    if (colocate) add("colocate");
    if (forward_only) add("forward_only", "force", force);
    if (coplace) add("coplace");
    if (fuse) add("fuse", "compat", compat);
  }

  Transformed apply(const OpGraph& graph) const override {
    if (parts_.empty()) return same_ops(graph);
    Transformed result = parts_.front()->apply(graph);
    for (std::size_t i = 1; i < parts_.size(); ++i) result = then(std::move(result), *parts_[i]);
    return result;
  }

 private:
  void add(const std::string& name) { parts_.push_back(make_transform(name, Options(name))); }
  void add(const std::string& name, const std::string& key, bool value) {
    Options options(name);
    options.set(key, {.text = value ? "true" : "false", .where = {}, .children = {}});
    parts_.push_back(make_transform(name, std::move(options)));
  }

  std::vector<std::unique_ptr<Transform>> parts_;
};

}  // namespace

std::unique_ptr<Transform> make_baechi(Options& o) { return std::make_unique<Bundle>(o); }

}  // namespace baechi
