/// One GPU cut into disjoint sets of SMs, by green contexts.
#pragma once
#include <cuda.h>

#include <string>
#include <vector>

#include "validate/cuda/cuda_check.h"
#include "validate/cuda/kernels.h"

namespace baechi::validate::replay {

/// A set of SMs. Without a context: all of the GPU, on which grids keep to `sms` blocks' worth.
struct Part {
  CUgreenCtx context = nullptr;
  unsigned sms = 0;
  SmSet seen{};  ///< SM ids on which a full load of blocks ran
};

/// The driver's answer about the cut.
struct Split {
  unsigned total = 0;
  unsigned minimum = 0;    ///< SMs in the smallest part it makes
  unsigned alignment = 0;  ///< of parts' sizes
  unsigned groups = 0;
  unsigned group_sms = 0;
  unsigned left_over = 0;

  std::string text() const;
};

/// Disjoint parts of the current GPU: per device one of compute and one, of one group of SMs, of
/// links. The driver is asked for ONE split into smallest groups, of which parts are made: two
/// splits would overlap. Throws Skip if the driver cannot, or if there are too few groups. [2 *
/// devices], compute and link in turn
std::vector<Part> green_partitions(int devices, Split& split);

/// The same sizes without green contexts: every part may run anywhere.
std::vector<Part> capped_partitions(int devices, unsigned sms);

/// Where kernels of this stream run, and nowhere else. Does not wait for the default stream.
Stream make_stream(const Part& part);

/// An event of the part's green context, which is made current for that. Throws Skip if the driver
/// lacks the functions, CudaError if they fail.
Event event_of(const Part& part);

int count(const SmSet& set);
bool within(const SmSet& inner, const SmSet& outer);
bool overlap(const SmSet& a, const SmSet& b);

}  // namespace baechi::validate::replay
