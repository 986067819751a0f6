#include "sim/transform/graph_copy.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Gradient accumulation over the micro-batches of a pipeline. The op that computes a gradient of
/// weights gets a kernel that reads it and the accumulator and writes the sum: `moved` times the
/// gradient's bytes, by default 3. The accumulator takes the memory of the gradient. The kernel is
/// fused into the previous one: an earlier `host` launches nothing for it. In a graph with measured
/// times the op takes longer by the gradient's bytes / `rate`. Source: Narayanan et al.,
/// Megatron-LM, SC 2021; its gradient_accumulation_fusion.
class Accumulate final : public Transform {
 public:
  explicit Accumulate(Options& o)
      : rate_(o.get("rate", Bandwidth{},
                    "for graphs with measured times: rate of accumulation, in bytes of gradients; "
                    "0: such a graph is rejected")),
        moved_(o.get("moved", 3.0, "bytes moved for each byte of a gradient", 1.0)) {}

  Transformed apply(const OpGraph& graph) const override {
    const bool measured =
        !graph.device_kinds().empty() || std::ranges::any_of(graph.ops(), [&](OpId v) {
          return graph.op(v).compute != Duration::zero();
        });
    const bool by_work = !measured && graph.has_work();
    if (!by_work && rate_ == Bandwidth{} && !gradients_of(graph).empty())
      throw InputError(
          "accumulate: this graph has measured times instead of work: give the 'rate' of gradient "
          "accumulation");
    return same_ops(graph);
  }

  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    IdVector<OpId, Bytes> gradient_bytes(graph.num_ops());
    for (const Gradient& g : gradients_of(graph)) {
      gradient_bytes[g.producer] += g.bytes;
      for (const AddedGradient& a : g.added)
        gradient_bytes[a.producer] += g.bytes;  // later micro-batches
    }
    GraphCopy copy(graph);
    const bool by_rate = rate_ > Bandwidth{};
    copy.add_all([&](OpId v, Duration time) {
      if (by_rate) return std::optional(time + gradient_bytes[v] / rate_);
      return gradient_bytes[v] == Bytes{} ? std::optional(time) : std::nullopt;
    });
    for (const OpId v : graph.ops())
      if (gradient_bytes[v] > Bytes{} && !by_rate)
        copy.builder().add_kernel(copy.copy_of(v), {.traffic = moved_ * gradient_bytes[v],
                                                    .weights = moved_ * gradient_bytes[v]});
    return std::move(copy).placed(device);
  }

 private:
  Bandwidth rate_;
  double moved_;
};

}  // namespace

std::unique_ptr<Transform> make_accumulate(Options& o) { return std::make_unique<Accumulate>(o); }

}  // namespace baechi
