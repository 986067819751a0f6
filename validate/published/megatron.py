"""Steps and memory under Megatron-LM: Korthikanti et al., and peaks of memory in Megatron-LM's functional tests."""
import re

from board import Comparison, InputError, Scored, number_of
from trainings import (add_recipe, divided, question_of, score_seconds, set_model, take, take_number, trainings, whole,
                       words_of)

# Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023: table 5, figures 1, 7.

PAPER = "measured/korthikanti/selective.csv"
PAPER_COLUMNS = ("model, gpus=devices, tensor, pipeline, batch, micro_batch, interleaving=virtual, quantity, how, value")
GIB = 1 << 30


def read_how(words, how):
    """What of a layer's activations is shared or computed again."""
    both = how.endswith("both") or how == "sequence parallel + selective recompute"
    words["sequence"] = "true" if both or how == "sequence parallel" else "false"
    words["recompute"] = ("full" if how == "full recompute" else
                          "selective" if both or how == "selective recompute" else "off")


def read_paper(words, row, quantity):
    name, how = take(words, "model"), take(words, "how")
    if take(words, "quantity") != quantity:
        return False
    row.what, row.group, row.measured = f"{name}, {how}", how, take_number(words, "value")
    nodes = {"kind": "dgx_a100", "count": divided(whole(words, "devices"), 8), "nics": 8,
             "network": {"kind": "infiniband_hdr"}}
    own = set(words)
    set_model(words, name)
    add_recipe(words, {"korthikanti"}, name, own=own)
    words["nodes"] = nodes
    read_how(words, how)
    if words["virtual"] == "1":
        del words["virtual"]
    return True


def score_korthikanti(data):
    return trainings(data, PAPER, PAPER_COLUMNS, lambda words, row: read_paper(words, row, "step_s"), score_seconds)


def two_steps(words):
    """Questions on two and three layers on one stage: their difference is a layer."""
    few = {**words, "devices": words["tensor"], "pipeline": "", "virtual": "", "nodes": "dgx_a100",
           "batch": words["micro_batch"]}
    return [question_of({**few, "layers": layers}) for layers in ("2", "3")]


def score_korthikanti_memory(data):
    """The paper's first stage keeps the layers of p micro-batches, with m parts a stage those of 1 + (p - 1) / (p m) times
    as many (section 4.2.3). Weights are half of 4 bytes there, of 18."""
    comparison, found = Comparison(), []
    table = data.read(PAPER, comparison)
    for quantity in ("memory_gib", "activation_memory_percent_of_tensor_parallel_baseline"):
        for line in table:
            with comparison.row(line):
                words, row = words_of(line, PAPER_COLUMNS), Scored(lines=[line.line])
                if read_paper(words, row, quantity):
                    plain = {**words}
                    read_how(plain, "none")
                    found.append((words, row, quantity, two_steps(words) + two_steps(plain)))
    answers = iter((yield [question for *_, questions in found for question in questions]))
    for words, row, quantity, _ in found:
        two, three, plain_two, plain_three = (next(answers) for _ in range(4))
        if "error" in two:
            comparison.skip(row.lines[0], two["error"])
            continue
        kept = float(three["kept_bytes"] - two["kept_bytes"])
        p, m, layers = (float(whole(words, key, 1)) for key in ("pipeline", "virtual", "layers"))
        if quantity != "memory_gib":
            row.simulated = 100.0 * kept / float(plain_three["kept_bytes"] - plain_two["kept_bytes"])
            row.group = "per cent, read off figure 7"
        else:
            weights = three["weight_bytes"] - two["weight_bytes"]
            parts = 1.0 + (p - 1.0) / (p * m) if m > 1.0 else 1.0
            row.simulated = (weights / 2.0 * 18.0 * layers / p / GIB if row.group == "weights and optimizer"
                             else kept * layers * parts / GIB)
            row.group = "GiB, figure 1"
        comparison.rows.append(row)
    return comparison


# Peaks of memory in Megatron-LM's functional tests, of the last rank of the pipeline.

CI_COLUMNS = """case, environment, platform, gpus=devices, mem_max_allocated_bytes=peak, num-layers=layers,
encoder-num-layers=layers_of_encoder, hidden-size=hidden, ffn-hidden-size=inner, num-attention-heads=heads,
num-query-groups=key_value_heads, kv-channels, seq-length=length, vocab-size=vocabulary,
make-vocab-size-divisible-by=vocabulary_multiple, micro-batch-size=micro_batch, global-batch-size=batch,
tensor-model-parallel-size=tensor, pipeline-model-parallel-size=pipeline,
num-layers-per-virtual-pipeline-stage=layers_of_a_chunk, num-virtual-stages-per-pipeline-rank=virtual,
context-parallel-size=context, expert-model-parallel-size=expert, sequence-parallel=sequence,
use-distributed-optimizer=distributed_optimizer, num-distributed-optimizer-instances=instances, use-megatron-fsdp=sharded,
recompute-granularity=recompute, bf16, fp16, fp8-format=fp8, transformer-impl=layers_by, attention-backend=attention,
swiglu=--swiglu, normalization, untie-embeddings-and-output-weights=untied, position-embedding-type,
disable-bias-linear=no_bias, num-experts=experts, moe-router-topk=top_k, moe-grouped-gemm=grouped,
moe-ffn-hidden-size=inner_of_expert, moe-shared-expert-intermediate-size=shared_inner,
expert-tensor-parallel-size=ranks_of_expert, multi-latent-attention=--multi-latent-attention,
mtp-num-layers=--mtp-num-layers, optimizer, cuda-graph-impl=--cuda-graph-impl, deterministic-mode=deterministic,
attention-dropout=attention_dropout, moe-layer-freq=frequency, tokenizer-type=tokenizer, hybrid-layer-pattern=pattern,
pipeline-model-parallel-layout=--pipeline-model-parallel-layout,
fine-grained-activation-offloading=--fine-grained-activation-offloading"""
MIB = 1 << 20


def refuse(refused, why):
    if refused:
        raise InputError(why)


def bytes_of_test(words, deterministic, own_layers, grouped):
    """CUBLAS_WORKSPACE_CONFIG=:4096:8 gives both handles of cuBLAS 32 MiB in place of their 8.1 where the test asks for
    deterministic results. Megatron-LM's own layers have no workspace of Transformer Engine; their attention writes its
    scores into a buffer that stays. The data loader makes the causal mask: a byte for each pair of tokens of a sample.
    Grouped GEMMs of experts run on four streams, each with a workspace as Transformer Engine's. Source: Megatron-LM,
    model_config.yaml of the tests, core/transformer/dot_product_attention.py (get_global_memory_buffer), legacy data loader
    (create_attention_mask); Transformer Engine, cpp_extensions/gemm.py (get_multi_stream_cublas_workspace)."""
    a100, samples, length = words["nodes"] == "dgx_a100", whole(words, "micro_batch", 1), whole(words, "length", 1024)
    heads = whole(words, "heads", 1) // whole(words, "tensor", 1)
    count = samples * length * length
    if deterministic and a100:
        count += 2 * (32 * 1024 - 2 * 4096 - 8 * 16) * 1024
    if grouped:
        count += 4 * (4 if a100 else 32) * MIB
    if own_layers:
        count += 2 * samples * heads * length * length - (4 if a100 else 32) * MIB
    return count


def name_machine(words):
    platform = take(words, "platform")
    words["nodes"] = "gb200_tray" if platform == "gb200" else f"dgx_{platform}"
    of_replica = whole(words, "tensor", 1) * whole(words, "pipeline", 1) * whole(words, "context", 1)
    words.setdefault("devices", str(max(8, of_replica)))


def pad_vocabulary(words):
    multiple = whole(words, "vocabulary_multiple", 128) * whole(words, "tensor", 1)
    words["vocabulary"] = str(divided(whole(words, "vocabulary", 50257), multiple) * multiple)  # unsaid: GPT-2's
    take(words, "vocabulary_multiple")


def share_optimizer(words):
    replicas = whole(words, "devices", 8) // whole(words, "tensor", 1) // whole(words, "pipeline", 1)
    instances = whole(words, "instances", 1)
    take(words, "instances")
    if take(words, "distributed_optimizer") == "true":
        words.setdefault("zero", "1")  # Megatron-FSDP's rows have 3
        if instances > 1:
            words["fsdp"] = str(replicas // instances)


def short_name(name):
    """"gpt/gpt3_mcore_te_tp1_pp2" without what every case has."""
    for common in ("gpt/", "moe/", "bert/", "t5/", "hybrid/", "nemotron/", "gpt3_", "hybrid_mr_", "mcore_"):
        name = name.removeprefix(common)
    return name


def group_of(words):
    if "pattern" in words:
        return "Mamba"
    if "sharded" in words:
        return "FSDP"
    if "experts" in words:
        return "experts"
    return "context" if whole(words, "context", 1) > 1 else "dense"


def read_model(words, gated):
    hybrid = "pattern" in words
    if hybrid:
        take(words, "--mtp-num-layers")
    for word, value in sorted(words.items()):
        refuse(word.startswith("--"), f"no generator has {word} {value}")
    if "sharded" in words and take(words, "sharded") == "true":
        words["zero"] = "3"
    refuse("fp8" in words, "copies of weights in fp8 are not modelled")
    refuse(words["optimizer"] not in ("", "adam"), "optimizer is not Adam")
    refuse("layers" not in words or "batch" not in words, "the row says no size")
    norm = take(words, "normalization")
    if hybrid:
        words["norm"] = "rms" if norm == "RMSNorm" else "layer"
    else:
        refuse(norm not in ("RMSNorm",) if gated else norm not in ("", "LayerNorm"), "no generator has norm " + norm)
    take(words, "optimizer")
    if take(words, "no_bias") == "true":
        words["bias"] = "false"
    if take(words, "attention_dropout") == "0.0":
        words["dropout"] = "false"
    positions = take(words, "position-embedding-type")
    if positions:
        words["positions"] = "rotary" if positions == "rope" else "none"
    of_head = take(words, "kv-channels")
    if gated and of_head:
        words["head_size"] = of_head
    refuse(not hybrid and not gated and of_head != "" and whole(words, "hidden") // whole(words, "heads", 1) != number_of(of_head, int),
           "heads are wider than their share of the features")
    words.update(generator="gpt", loss="separate", framework="megatron", precision="fp16" if "fp16" in words else "bf16")
    take(words, "fp16")
    take(words, "bf16")


def name_experts(words):
    """Experts are divided by ranks of tensor parallelism there, and whole here: so many more ranks share them, with as many
    weights. Tokens are shared evenly."""
    words["expert"] = str(whole(words, "ranks_of_expert", whole(words, "tensor", 1)) * whole(words, "expert", 1))
    take(words, "ranks_of_expert")
    inner = take(words, "inner_of_expert")
    if inner:
        words["inner"] = inner


def name_gated(words, latent, frequency):
    """Llama's blocks, with experts Mixtral's. Latent attention has the defaults of Megatron-LM's arguments (q_lora_rank and
    kv_lora_rank 512, qk_head_dim and v_head_dim 128, qk_pos_emb_head_dim 64)."""
    for key in ("positions", "bias", "dropout", "tied"):
        take(words, key)
    words["loss"] = "separate"
    if "experts" not in words:
        words.update(generator="llama", size="7b")
        words.setdefault("key_value_heads", words["heads"])
        return
    words.update(generator="moe", weighted_experts="true", grouped_experts="true")
    dense = re.match(r"\(\[0\]\*(\d+)", frequency)
    if dense:
        words.update(dense_layers=dense[1], dense_inner=words["inner"])
    words.setdefault("key_value_heads", words["heads"])
    if latent:
        words.update(key_value_rank="512", query_rank="512", rotary_size="64", head_size="128")


def name_t5(words):
    """T5 of the tests reads 512 words and writes 128. Source: its model_config.yaml, as no column says."""
    refuse(whole(words, "pipeline", 1) > 1, "encoder and decoder are one stage")
    words.update(generator="transformer", target_length="128", activation="gelu", optimizer="adam", bias="true",
                 learned_positions="true", shared_embeddings=take(words, "tied"))
    take(words, "loss")


def name_bert(words):
    """BERT's norms are before its blocks there, not behind them: as many bytes."""
    refuse((take(words, "layers"), take(words, "hidden"), take(words, "heads")) != ("24", "1024", "16"),
           "no generator has a BERT of this size")
    words.update(generator="bert", size="large")
    take(words, "loss")


def name_hybrid(words, nemotron):
    """Layers by letters; behind each '/' those that predict a token more. Mixers have the defaults of Megatron-LM's
    arguments (mamba-head-dim 64, groups 8, states 128, expand 2), and those of Nemotron 3 its own."""
    pattern = take(words, "pattern")
    words.update(generator="hybrid", layers=pattern.split("/")[0])
    if "/" in pattern:
        words["further_tokens"] = str(pattern.count("/"))
    take(words, "positions")
    stages, parts = whole(words, "pipeline", 1), pattern.count("|") + 1
    if parts > stages:
        words["virtual"] = str(parts // stages)
    words["size"] = "nemotron-3-nano" if nemotron else "nemotron-h-8b"
    if nemotron:
        return
    hidden = whole(words, "hidden")
    words.update(mixer_heads=str(2 * hidden // 64), head_size=str(hidden // whole(words, "heads", 1)), activation="gelu")
    for word, value in (("inner", str(4 * hidden)), ("bias", "true"), ("dropout", "true")):
        words.setdefault(word, value)


def read_ci(words, row):
    name, environment = take(words, "case"), take(words, "environment")
    bert, t5 = name.startswith("bert/"), name.startswith("t5/")
    refuse("uninstall_te" in name, "no column says what uninstall_te does")
    refuse(name.startswith("gpt/gpt_grpo") or "inference" in name, "no training alone")
    hybrid, nemotron = "pattern" in words, name.startswith("nemotron/")
    gated = take(words, "--swiglu") == "true"
    refuse(not name.startswith(("gpt/", "moe/")) and not bert and not t5 and not hybrid and not gated,
           "no generator makes the model")
    if hybrid:
        words["layers"] = "1"  # its pattern says more
    if bert:
        words["vocabulary"] = "30522"
    if t5:  # pieces of words, and 102 of no word
        words.update(vocabulary="29098", length="512", layers=take(words, "layers_of_encoder"))
    if "qk_layernorm" in name:
        words["query_key_norm"] = "true"
    row.measured = take_number(words, "peak")
    row.what = f"{short_name(name)}, {environment}"
    row.group = "BERT" if bert else "T5" if t5 else group_of(words)
    for key in ("layers", "experts"):
        words[key] = words[key].partition(" #")[0]  # a comment of its yaml
        if words[key] == "":
            del words[key]
    latent, frequency, tokenizer = take(words, "--multi-latent-attention"), take(words, "frequency"), take(words, "tokenizer")
    if gated:
        words["further_tokens"] = take(words, "--mtp-num-layers")
        if tokenizer == "GPTSentencePieceTokenizer" and "deepseek" not in name:
            words["vocabulary"] = words["vocabulary"] or "32000"
    read_model(words, gated)
    name_machine(words)
    pad_vocabulary(words)
    words["tied"] = "false" if take(words, "untied") == "true" else "true"
    share_optimizer(words)
    attention = take(words, "attention")
    own_layers = take(words, "layers_by") == "local" or (bert and attention == "local")
    deterministic = take(words, "deterministic") == "true"
    # Transformer Engine chooses; the older one of these environments has no deterministic kernel.
    chose_none = attention == "" and deterministic and "dracooci" in environment
    fused = not own_layers and not chose_none and not attention.startswith("unfused") and attention != "local"
    words["fused_attention"] = "true" if fused else "false"
    # Transformer Engine prefers cuDNN's kernel on compute capability 9.0, else FlashAttention.
    if fused and attention != "fused" and words["nodes"] != "dgx_h100":
        words["copied_output"] = "true"
    of_chunk = whole(words, "layers_of_a_chunk", 0, 0)
    if of_chunk > 0:
        words["virtual"] = str(whole(words, "layers", 1) // of_chunk // whole(words, "pipeline", 1))
    take(words, "layers_of_a_chunk")
    row.simulated = float(bytes_of_test(words, deterministic, own_layers, take(words, "grouped") == "true"))
    if gated:
        name_gated(words, latent == "true", frequency)
    if "experts" in words:
        name_experts(words)
    if hybrid:
        name_hybrid(words, nemotron)
    if bert:
        name_bert(words)
    if t5:
        name_t5(words)
    return True


def score_megatron_ci(data):
    def score(answer, row):
        row.simulated += float(answer["last_peak_bytes"])
        row.work = 18.0 / 4.0 * answer["weight_bytes"]  # the baseline: 18 bytes for each parameter of the rank

    return trainings(data, "measured/megatron_ci/golden.csv", CI_COLUMNS, read_ci, score)
