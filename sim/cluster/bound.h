/// Whether an op's time is bound by compute, by memory or by the host.
#pragma once
#include "sim/cluster/device_model.h"
#include "sim/names.h"

namespace baechi {

enum class Bound : std::uint8_t { compute, memory, host };
constexpr auto names_of(Bound) {
  return std::to_array<Named<Bound>>({{Bound::compute, "compute", "its arithmetic"},
                                      {Bound::memory, "memory", "the bytes it reads and writes"},
                                      {Bound::host, "host", "its launches, or it runs there"}});
}

/// The largest of arithmetic, traffic and launches on the device, each summed over the kernels of
/// `op`. Ties: compute, then memory. An op without kernels: host.
Bound bound_by_work(const OpGraph& graph, OpId op, const DeviceModel& model);

}  // namespace baechi
