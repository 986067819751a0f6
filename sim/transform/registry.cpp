#include "sim/transform/transform.h"

namespace baechi {

Transformed same_ops(OpGraph graph) {
  Transformed result{.graph = std::move(graph)};
  result.mapped_op.reserve(result.graph.num_ops());
  for (const OpId v : result.graph.ops()) result.mapped_op.push_back(v);
  return result;
}

PlacedStep placed_step(OpGraph graph, const IdVector<OpId, OpId>& renumbered,
                       const IdVector<OpId, DeviceId>& device) {
  PlacedStep step{.graph = std::move(graph)};
  step.device.assign(device.size(), DeviceId{});
  for (const OpId v : renumbered.ids()) step.device[renumbered[v]] = device[v];
  return step;
}

Transformed then(Transformed first, const Transform& second) {
  Transformed result = second.apply(first.graph);
  for (OpId& v : first.mapped_op)
    if (v != no_op) v = result.mapped_op[v];
  result.mapped_op = std::move(first.mapped_op);
  if (first.needs > result.needs) {
    result.needs = first.needs;
    result.needs_why = std::move(first.needs_why);
  }
  result.batches *= first.batches;
  return result;
}

MakeTransform make_as_sends, make_by_module, make_colocate, make_coplace, make_fuse,
    make_forward_only, make_baechi, make_prune, make_split_sums, make_control_edges,
    make_accumulate, make_data_parallel, make_micro_batches, make_precision, make_quantize,
    make_overlap_exchanges, make_recompute, make_send_after_pass, make_host, make_offload,
    make_what_if;

std::span<const TransformEntry> transforms() {
  static constexpr TransformEntry table[] = {
      {"colocate", "groups by TensorFlow's rules: gradients, variables, updates",
       "TensorFlow 1; Baechi, SoCC'20, section 3.1", TransformUse::placing, make_colocate},
      {"coplace", "an op that exactly one other op reads joins its group",
       "Baechi, SoCC'20, section 3.1", TransformUse::placing, make_coplace},
      {"by_module", "ops of one module of the model, down to a depth, are one group", "our own",
       TransformUse::placing, make_by_module},
      {"fuse", "neighbours in one group become one op", "Baechi, SoCC'20, section 3.1",
       TransformUse::placing, make_fuse},
      {"forward_only", "backward and update ops follow their forward op, hidden from the placer",
       "Baechi, SoCC'20, section 3.1", TransformUse::placing, make_forward_only},
      {"baechi", "the paper's bundle: colocate, forward_only, coplace, fuse", "Baechi, SoCC'20",
       TransformUse::placing, make_baechi},
      {"prune", "drops ops without any edge", "Baechi's code", TransformUse::model, make_prune},
      {"control_edges", "sets the cost of control dependencies between devices", "Baechi's code",
       TransformUse::model, make_control_edges},
      {"precision", "mixed precision: half of the bytes, another dtype",
       "Micikevicius et al., ICLR 2018; factors: Daydream, ATC 2020", TransformUse::model,
       make_precision},
      {"quantize", "weights that are not trained, and caches, in formats of 1 to 8 bits",
       "llama.cpp; Dettmers et al., QLoRA, NeurIPS 2023", TransformUse::model, make_quantize},
      {"recompute", "activation checkpointing: activations are recomputed in the backward pass",
       "Chen et al., 2016; Korthikanti et al., MLSys 2023", TransformUse::model, make_recompute},
      {"overlap_exchanges", "overlap of sequence-parallel collectives with GEMMs",
       "Wang et al., ASPLOS 2023; Transformer Engine", TransformUse::model, make_overlap_exchanges},
      {"micro_batches", "the step of several micro-batches: copies of forward and backward ops",
       "Huang et al., GPipe, NeurIPS 2019", TransformUse::model, make_micro_batches},
      {"data_parallel", "replicas of the placed step that reduce their gradients",
       "Li et al., PyTorch Distributed, VLDB 2020; Rajbhandari et al., ZeRO, SC 2020",
       TransformUse::placed, make_data_parallel},
      {"accumulate", "gradient accumulation over the micro-batches of a pipeline",
       "Narayanan et al., Megatron-LM, SC 2021", TransformUse::placed, make_accumulate},
      {"as_sends", "collectives become the sends of a ring, each a tensor over a link",
       "Patarasuk and Yuan, JPDC 2009", TransformUse::placed, make_as_sends},
      {"send_after_pass", "a device sends when its whole forward or backward pass has ended",
       "PyTorch's distributed sends", TransformUse::placed, make_send_after_pass},
      {"host", "the host launches the ops one after the other",
       "Zhu et al., Daydream, ATC 2020, section 4", TransformUse::placed, make_host},
      {"offload", "weights, or the optimizer, wait in host memory",
       "Ren et al., ZeRO-Offload, USENIX ATC 2021; Hugging Face accelerate", TransformUse::placed,
       make_offload},
      {"what_if", "rules that rewrite the step: scale, merge, remove, insert, ...",
       "Zhu et al., Daydream, ATC 2020, section 5", TransformUse::placed, make_what_if},
      {"split_sums", "a sum of terms on several devices is first reduced on each device",
       "TensorFlow 1's gradients", TransformUse::placed, make_split_sums},
  };
  return table;
}

std::unique_ptr<Transform> make_transform(std::string_view name, Options options,
                                          const std::string& where) {
  return make_entry(transforms(), "transform", name, std::move(options), where);
}

}  // namespace baechi
