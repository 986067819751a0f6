#include "validate/published/published.h"

namespace baechi::validate {

CompareBlock compare_allreduce_a100, compare_allreduce_v100, compare_nccl_unfitted,
    compare_vtrain_pieces, compare_vtrain_multi_node, compare_kernels, compare_passes,
    compare_attention, compare_collectives, compare_ddp, compare_bert_data_parallel,
    compare_inference, compare_other_inference, compare_training, compare_training_parallel,
    compare_mixed_precision, compare_lambda, compare_flagperf, compare_korthikanti,
    compare_korthikanti_memory, compare_megatron_ci, compare_llm_foundry, compare_llm_foundry_fits,
    compare_torchtitan, compare_internevo, compare_internevo_memory, compare_bigscience,
    compare_nemo, compare_dgxc, compare_plans;

namespace {

// The files as they were when the program's numbers were fitted to them. A test holds the checksums
// to the files, where these are.
constexpr FittedFile single_node{"vtrain/measured_single_node.csv", 0xb6a9034b58409898U};
constexpr FittedFile multi_node{"vtrain/measured_multi_node.csv", 0x9e52218a2723be72U};
constexpr FittedFile inference{"dlexamples/inference.csv", 0x34cad8cf56972121U};
constexpr FittedFile training{"dlexamples/training.csv", 0x7412a6599312158eU};
constexpr FittedFile vtrain[] = {single_node, multi_node};
constexpr FittedFile examples[] = {inference, training};
constexpr FittedFile a100[] = {{"vtrain/allreduce/a100_gpu2.csv", 0xfc9cb4272cfab2c5U},
                               {"vtrain/allreduce/a100_gpu4.csv", 0xc15c9294563f2e4aU},
                               {"vtrain/allreduce/a100_gpu8.csv", 0x1b9455258dcaaedaU}};
constexpr FittedFile ddp[] = {{"papers/ddp_measured.csv", 0x8e64f5ab4728e331U}};
constexpr FittedFile v100[] = {{"vtrain/allreduce/v100_gpu2.csv", 0x2b2a31c0c50e59caU},
                               {"vtrain/allreduce/v100_gpu8.csv", 0xe7440056290abe39U}};

constexpr FittedFile kernels[] = {{"measured/aiconfigurator/gemm.csv.zst", 0xb9724fb0c4c377f0U}};
constexpr FittedFile passes[] = {{"measured/vidur/ops.csv.zst", 0x9d7ff7aabccd8c98U}};
constexpr FittedFile attention[] = {
    {"measured/aiconfigurator/attention_forward.csv.zst", 0x0b2d2c0fc3027c11U}};
constexpr FittedFile collectives[] = {
    {"measured/aiconfigurator/nccl.csv.zst", 0x3e0af6597bd47412U}};

constexpr FittedFile nemo_steps[] = {{"measured/nemo/megatron_bridge.csv", 0xcb29193437001e1bU}};

constexpr std::string_view one_mfu = "one MFU for each machine and number format";
constexpr std::string_view one_bus = "one bandwidth for each machine";

}  // namespace

std::span<const PublishedBlock> published_blocks() {
  static constexpr PublishedBlock table[] = {
      {"vtrain_pieces",
       "a layer, and logits and loss, of GPTs on 1-8 A100: pieces of which vTrain's times of one "
       "node are sums (MICRO 2024)",
       "six numbers of a100_megatron, to these pieces and to steps on several nodes; to other "
       "pieces "
       "10.8 % for layers, 5.7 % for heads, of which what vTrain's profiler takes is read off all "
       "of "
       "them",
       one_mfu, "", compare_vtrain_pieces, vtrain},
      {"vtrain_multi_node", "steps of GPTs of 3.6-175 B on 64-512 A100 (vTrain, MICRO 2024)",
       "the same six numbers, and two of the network of dgx_a100; with the network of the other "
       "models 6.3 %, with these numbers of others 6.5 %",
       one_mfu, "", compare_vtrain_multi_node, vtrain},
      {"allreduce_a100", "all-reduce alone, 2-8 A100 of a DGX, 1 MiB-1 GiB (vTrain, MICRO 2024)",
       "four numbers, to 2, 4 and 8 GPUs", one_bus,
       "ASTRA-sim 2.2's documentation: 20.6, 12.0, 9.7 % with 2, 4, 8 H100 of a node",
       compare_allreduce_a100, a100},
      {"allreduce_v100", "all-reduce alone, 2-8 V100 of a DGX-1, 1 MiB-1 GiB (vTrain, MICRO 2024)",
       "three numbers, to 2 and 8 GPUs", one_bus,
       "ASTRA-sim 2.2's documentation: 11.4, 7.9, 2.8 % with 2, 4, 8 V100", compare_allreduce_v100,
       v100},
      {"nccl_unfitted",
       "all-reduce alone, from 1 MB, 10 systems of 1-4 nodes (public logs of nccl-tests)",
       "nothing: line rates of data sheets, 80 % inside nodes, 95 % between", one_bus,
       "ASTRA-sim 2.2's documentation: 2.8-20.6 %, fitted to each system", compare_nccl_unfitted},
      {"inference", "latency of image networks, batches of 1-256, PyTorch, V100, T4, A100 (NVIDIA)",
       "kinds of devices under frameworks, to dlexamples/", one_mfu, "", compare_inference,
       examples},
      {"inference_other_frameworks", "the same with MXNet and TensorFlow",
       "kinds of devices under frameworks, to dlexamples/", one_mfu, "", compare_other_inference,
       examples},
      {"training", "training throughput of image networks, GNMT, Transformer, BERT (NVIDIA)",
       "kinds of devices under frameworks, to dlexamples/", one_mfu, "", compare_training,
       examples},
      {"training_parallel", "the same on 2-16 GPUs of a machine (NVIDIA)",
       "kinds of devices under frameworks, to rows of one GPU", one_mfu, "",
       compare_training_parallel, examples},
      {"mixed_precision", "what mixed precision gains in the same trainings",
       "kinds of devices under frameworks, to throughputs, not to ratios",
       "one gain for each machine and format", "Daydream: below 13 %", compare_mixed_precision,
       examples},
      {"ddp", "steps of ResNet-50 and -101 with DDP on 1-8 GH200 of 1-2 nodes (HPE)",
       "the step of one GPU without DDP, and DDP's time for each gradient",
       "the step of one GPU, times one factor", "", compare_ddp, ddp},
      {"bert_data_parallel", "steps of BERT-large, PyTorch, on 8 V100 and 8-256 A100 (NVIDIA)",
       "nothing but the step of one GPU", "the step of one GPU, times one factor", "",
       compare_bert_data_parallel},
      {"lambda",
       "training throughput of ResNet-50 and BERT-base on 1-8 V100, A100, H100 and RTX (Lambda)",
       "nothing; PyTorch's passes and host times are those of V100, T4 and A100 in dlexamples/",
       one_mfu, "", compare_lambda},
      {"flagperf", "memory of training ResNet-50 on A100 (FlagPerf)", "nothing",
       "one GB per billion parameters and sample", "", compare_flagperf},
      {"korthikanti", "steps of GPTs of 22-1000 B on 8-512 A100, table 5 (MLSys 2023)", "nothing",
       one_mfu, "Calculon: 3.7 % on 8", compare_korthikanti},
      {"korthikanti_memory",
       "memory of these GPTs by the paper's formulas: GiB, and per cent as read off a figure",
       "nothing", "none: formulas, not measured", "", compare_korthikanti_memory},
      {"megatron_ci", "peaks of memory in Megatron-LM's functional tests, of the last rank",
       "nothing", "18 bytes for each parameter of the rank, times one factor", "",
       compare_megatron_ci},
      {"llm_foundry", "steps of MPT of 125 M-70 B under FSDP on 8-512 H100 and A100 (MosaicML)",
       "nothing", one_mfu, "", compare_llm_foundry},
      {"llm_foundry_fits",
       "verdicts, right or wrong: what ran fits; one sample more, or twice as many, do not "
       "(MosaicML)",
       "nothing", "none: verdicts", "", compare_llm_foundry_fits},
      {"torchtitan", "steps of Llama 3.1 under FSDP2 on 8-512 H100 and H200 (PyTorch)",
       "nothing; that its rings are unbalanced is inferred from these rows", one_mfu, "",
       compare_torchtitan},
      {"internevo", "steps of InternLM-7B under ZeRO 1 on 8-1024 A100 (InternLM)", "nothing",
       one_mfu, "", compare_internevo},
      {"internevo_memory", "memory of InternLM-7B and -20B under FSDP on 3-16 A800, by nvidia-smi",
       "nothing", "one factor times the weights of a rank", "", compare_internevo_memory},
      {"bigscience", "steps of GPTs of 104-200 B on up to 384 A100 (BigScience)", "nothing",
       one_mfu, "", compare_bigscience},
      {"nemo", "training steps of NeMo's tables, H100 to GB300 (NVIDIA)",
       "how slow mixers of Mamba-2 are, to Nemotron 3 Nano on GB200 and GB300; what a kernel takes "
       "the host without CUDA graphs, to megatron_ci; that a sum in 16 bits takes as long as in "
       "32, "
       "to dgxc",
       one_mfu, "", compare_nemo, nemo_steps},
      {"dgxc", "training steps of DGX Cloud's recipes on 8-2304 H100 (NVIDIA)",
       "that a sum in 16 bits takes as long as in 32: 24 rows of Llama 3.1 70B in BF16", one_mfu,
       "", compare_dgxc},
      {"plans",
       "plans of one model on one machine, in the trainings above: their order, and the plan "
       "ranked "
       "first beside the best",
       "as in the blocks of the trainings", "none: orders", "", compare_plans},
      {"kernels", "matrix products on A100 to GB300, L40S and RTX PRO 6000 (AIConfigurator)",
       "9 to 12 numbers for each GPU and format", one_mfu, "", compare_kernels, kernels},
      {"passes", "norms, activations, rotary positions and sums on A100 and H100 (Vidur)",
       "a launch for each GPU, a share of its bandwidth for each kind of op",
       "one bandwidth for each machine and op", "", compare_passes, passes},
      {"attention", "fused causal attention in bf16 on A100 to GB200 and L40S (AIConfigurator)",
       "6 to 8 numbers for each GPU and size of head", one_mfu, "", compare_attention, attention},
      {"collectives",
       "collectives of 2, 4, 8 GPUs of a node from 1 MiB, A100 to GB300 (NCCL tests)",
       "medians by op, ranks and size of GPUs with the same links",
       "one bandwidth for each machine and op", "", compare_collectives, collectives},
  };
  return table;
}

}  // namespace baechi::validate
