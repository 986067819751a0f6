#include "validate/published/published.h"

namespace baechi::validate {

std::optional<std::vector<PublishedRow>> compare_allreduce_a100(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_allreduce_v100(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_nccl_unfitted(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_vtrain_single_node(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_vtrain_multi_node(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_ddp(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_bert_data_parallel(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_inference(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_other_inference(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_training(const std::string& folder);
std::optional<std::vector<PublishedRow>> compare_mixed_precision(const std::string& folder);

std::span<const PublishedBlock> published_blocks() {
  static constexpr PublishedBlock table[] = {
      {"vtrain_single_node", "steps of GPTs on 2-8 A100 of a node (vTrain, MICRO 2024)",
       "five numbers, to these rows and those of several nodes", "vTrain: 8.4 %",
       compare_vtrain_single_node},
      {"vtrain_multi_node", "steps of GPTs of 3.6-175 B on 64-512 A100 (vTrain, MICRO 2024)",
       "the same five numbers; data sheets between nodes", "vTrain: 14.7 %",
       compare_vtrain_multi_node},
      {"allreduce_a100", "all-reduce alone, 2-8 A100 of a DGX, 1 MiB-1 GiB (vTrain, MICRO 2024)",
       "2, 4 and 8 GPUs",
       "ASTRA-sim 2.2's documentation: 20.6, 12.0, 9.7 % with 2, 4, 8 H100 of a node",
       compare_allreduce_a100},
      {"allreduce_v100", "all-reduce alone, 2-8 V100 of a DGX-1, 1 MiB-1 GiB (vTrain, MICRO 2024)",
       "2 and 8 GPUs", "ASTRA-sim 2.2's documentation: 11.4, 7.9, 2.8 % with 2, 4, 8 V100",
       compare_allreduce_v100},
      {"nccl_unfitted",
       "all-reduce alone, from 1 MB, 10 systems of 1-4 nodes (public logs of nccl-tests)",
       "nothing: line rates of data sheets, 80 % inside nodes, 95 % between",
       "ASTRA-sim 2.2's documentation: 2.8-20.6 %, fitted to each system", compare_nccl_unfitted},
      {"inference", "latency of image networks, batches of 1-256, PyTorch, V100, T4, A100 (NVIDIA)",
       "these rows", "", compare_inference},
      {"inference_other_frameworks", "the same with MXNet and TensorFlow", "these rows", "",
       compare_other_inference},
      {"training", "training throughput of image networks, GNMT, Transformer, BERT (NVIDIA)",
       "these rows", "", compare_training},
      {"mixed_precision", "what mixed precision gains in the same trainings",
       "throughputs, not ratios", "Daydream: below 13 %", compare_mixed_precision},
      {"ddp", "steps of ResNet-50 and -101 with DDP on 1-8 GH200 of 1-2 nodes (HPE)",
       "nothing but the step of one GPU without DDP", "", compare_ddp},
      {"bert_data_parallel", "steps of BERT-large, PyTorch, on 8 V100 and 8-256 A100 (NVIDIA)",
       "nothing but the step of one GPU", "", compare_bert_data_parallel},
  };
  return table;
}

}  // namespace baechi::validate
