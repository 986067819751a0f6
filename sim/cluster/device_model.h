/// How fast a kind of device runs an op of which only the work is known.
#pragma once
#include <map>
#include <string>

#include "sim/graph/op_graph.h"

namespace baechi {

/// A roofline (Williams et al., CACM 2009): each kernel of an op takes `launch` and the longer of
/// its arithmetic and its memory traffic, at the share of the peaks that such kernels reach.
struct DeviceModel {
  std::string name;
  FlopRate peak{};
  Bandwidth bandwidth{};  ///< of the device's memory
  Bytes memory{};
  Duration launch{};                                ///< of each kernel
  Duration no_kernel{};                             ///< what an op without kernels takes
  double efficiency = 1.0;                          ///< of the peak, for kinds not named below
  double bandwidth_efficiency = 1.0;                ///< of the bandwidth
  std::map<std::string, double, std::less<>> kind;  ///< efficiency by kind of op
  std::string source;
};

/// Time of every op of `graph` on such a device, rounded up to a nanosecond. [num_ops]
IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model);

}  // namespace baechi
