/// The time of an op on a kind of device, from the op's work (a roofline).
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
  Bandwidth bandwidth{};  ///< peak of the device's memory
  Bytes memory{};
  Duration launch{};                                ///< time added to each kernel
  Duration no_kernel{};                             ///< time of an op without kernels
  double efficiency = 1.0;                          ///< share of the peak, kinds not below
  double bandwidth_efficiency = 1.0;                ///< share of the bandwidth
  std::map<std::string, double, std::less<>> kind;  ///< share of the peak by kind of op
  std::string source;
};

/// Time of every op of `graph` on such a device, rounded up to a nanosecond. [num_ops]
IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model);

}  // namespace baechi
