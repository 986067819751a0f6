#include "validate/fit/fit.h"

namespace baechi::validate {

MakeFit fit_collectives, fit_collective_tables, fit_megatron, fit_network, fit_devices, fit_kernels;

std::span<const FitEntry> fits() {
  static constexpr FitEntry table[] = {
      {"collectives", "latencies and bandwidths of all_reduce inside a node",
       "vtrain/allreduce: A100 of 2, 4, 8, V100 of 2, 8", fit_collectives},
      {"collective_tables",
       "times of collectives by number of ranks and size, of six kinds of links",
       "measured/aiconfigurator/nccl.csv and measured/public_logs/allreduce.csv",
       fit_collective_tables},
      {"megatron", "what A100s reach in training GPTs: a100_megatron", "vtrain/measured_*.csv",
       fit_megatron},
      {"network", "what DGX A100s reach between nodes: network_efficiency, nics_per_group",
       "vtrain/measured_multi_node.csv", fit_network},
      {"devices", "kinds of devices under four frameworks: shares of peaks, launches, host times",
       "dlexamples/", fit_devices},
      {"kernels", "matrix products, attention and other kernels of nine GPUs, and of any other",
       "measured/aiconfigurator/gemm.csv and attention_forward.csv, measured/vidur/ops.csv",
       fit_kernels},
  };
  return table;
}

}  // namespace baechi::validate
