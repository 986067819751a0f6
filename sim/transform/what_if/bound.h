/// What decides the time of an op.
#pragma once
#include "sim/names.h"
#include "sim/transform/what_if/step.h"

namespace baechi::what_if {

enum class Bound : std::uint8_t { compute, memory, host };
constexpr auto names_of(Bound) {
  return std::to_array<Named<Bound>>({{Bound::compute, "compute", "its arithmetic"},
                                      {Bound::memory, "memory", "the bytes it reads and writes"},
                                      {Bound::host, "host", "its launches, or it runs there"}});
}

/// [num_ops] By work on the first device whose model is known: which of launches, arithmetic and
/// traffic takes the longest, summed over the kernels. Ops without work or without a model: host
/// in a lane of the host; else by the kind: compute where it names a convolution, a matrix product
/// or the like, else memory.
IdVector<OpId, Bound> bounds_of(const Scope& scope);

}  // namespace baechi::what_if
