/// Kernels that were measured one by one, in measured/aiconfigurator and measured/vidur.
#pragma once
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

struct MeasuredKernel {
  std::string kind;   ///< of the device in devices.yaml: "h100"
  std::string group;  ///< rows of one fit: "bf16", "64" (the size of a head)
  std::string what;   ///< for people
  std::string key;    ///< rows with equal keys are not told apart by a split: "4096 x 128"
  OpWork work{};
  double us = 0.0;
  std::string line{};
};

/// Matrix products, by number format. Rows of devices that have no kind are skipped. Nothing if the
/// folder has no such file.
std::vector<MeasuredKernel> measured_products(const std::string& folder, Leftovers& left);
/// Fused causal attention in bf16, by size of head.
std::vector<MeasuredKernel> measured_attention(const std::string& folder, Leftovers& left);
/// Norms, activations, rotary positions and sums of a decoder's layer, in fp16.
std::vector<MeasuredKernel> measured_passes(const std::string& folder, Leftovers& left);

}  // namespace baechi::validate
