#include <fmt/format.h>

#include <memory>

#include "placers/interface/placer.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// Places every op on one device. Ignores memory: the engine reports whether the placement fits.
class Single final : public Placer {
 public:
  explicit Single(Options& o)
      : device_(static_cast<std::uint32_t>(o.get("device", std::int64_t{0}, "which device"))) {}

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (device_ >= p.cluster.num_devices())
      throw InfeasibleError(
          fmt::format("single: no device {} among {}", device_, p.cluster.num_devices()));
    return {.device = IdVector<OpId, DeviceId>(p.graph.num_ops(), DeviceId{device_})};
  }

 private:
  std::uint32_t device_;
};

}  // namespace

std::unique_ptr<Placer> make_single(Options& o) {
  return std::make_unique<Single>(o);
}

}  // namespace baechi
