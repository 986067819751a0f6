#include "sim/transform/transform.h"

namespace baechi {
namespace {

/// Sets the cost of a control dependency between two devices. TensorFlow sends it like a tensor of
/// 4 bytes, which takes the latency and a channel (Q19 in placers/README.md). If free, it is known
/// on all devices as soon as its op has ended.
class ControlEdges final : public Transform {
 public:
  explicit ControlEdges(Options& o)
      : free_(o.get("as", {"cost", "free"},
                    "cost: sent between devices as 4 bytes; free: known everywhere at once") ==
              "free") {}

  Transformed apply(const OpGraph& graph) const override {
    return same_ops(free_ ? graph.with_free_controls() : graph);
  }

 private:
  bool free_;
};

}  // namespace

std::unique_ptr<Transform> make_control_edges(Options& o) {
  return std::make_unique<ControlEdges>(o);
}

}  // namespace baechi
