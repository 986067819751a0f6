#include <algorithm>
#include <memory>

#include "sim/error.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Each micro-batch of a pipeline adds its gradients of the weights to those before it. The op that
/// makes a gradient gets a kernel that reads both and writes the sum: three times the bytes that
/// the replica keeps, or what `moved` says. The sum takes the memory that the gradient has anyway.
/// The kernel is fused into the one before it: a `host` that stands before launches nothing for it.
/// Measured times say nothing of such a kernel: there the op takes the gradient's bytes over `rate`
/// longer. Source: Narayanan et al., Megatron-LM, SC 2021; its gradient_accumulation_fusion.
class Accumulate final : public Transform {
 public:
  explicit Accumulate(Options& o)
      : rate_(o.get("rate", Bandwidth{},
                    "of a graph with measured times: bytes of gradients that are added up in a "
                    "second; 0: such a graph is refused")),
        moved_(o.get("moved", 3.0, "bytes moved for each byte of a gradient", 1.0)) {}

  Transformed apply(const OpGraph& graph) const override {
    const bool measured =
        !graph.device_kinds().empty() || std::ranges::any_of(graph.ops(), [&](OpId v) {
          return graph.op(v).compute != Duration::zero();
        });
    const bool by_work = !measured && graph.has_work();
    if (!by_work && rate_ == Bandwidth{} && !gradients_of(graph).empty())
      throw InputError(
          "accumulate: the time of a sum follows from the work of ops, and this graph has measured "
          "times: give the 'rate' of sums");
    return same_ops(graph);
  }

  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    IdVector<OpId, Bytes> made(graph.num_ops());
    for (const Gradient& g : gradients_of(graph)) {
      made[g.producer] += g.bytes;
      for (const AddedGradient& a : g.added) made[a.producer] += g.bytes;  // of micro_batches
    }
    GraphCopy copy(graph);
    const bool by_rate = rate_ > Bandwidth{};
    copy.add_all([&](OpId v, Duration time) {
      if (by_rate) return std::optional(time + made[v] / rate_);
      return made[v] == Bytes{} ? std::optional(time) : std::nullopt;
    });
    for (const OpId v : graph.ops())
      if (made[v] > Bytes{} && !by_rate)
        copy.builder().add_kernel(copy.copy_of(v),
                                  {.traffic = moved_ * made[v], .weights = moved_ * made[v]});
    IdVector<OpId, OpId> renumbered;
    PlacedStep step{.graph = std::move(copy).built(&renumbered).graph};
    step.device.assign(device.size(), DeviceId{});
    for (const OpId v : renumbered.ids()) step.device[renumbered[v]] = device[v];
    return step;
  }

 private:
  Bandwidth rate_;
  double moved_;
};

}  // namespace

std::unique_ptr<Transform> make_accumulate(Options& o) {
  return std::make_unique<Accumulate>(o);
}

}  // namespace baechi
