"""Training steps that MosaicML, PyTorch, InternLM and BigScience published."""
from board import InputError, facts
from trainings import add_recipe, score_seconds, seconds_of, set_model, several, take, take_number, trainings, whole

# llm_foundry: MPT under FSDP, with micro-batches that were chosen by hand near the largest.

FOUNDRY = "measured/llm_foundry/training.csv"
FOUNDRY_COLUMNS = ("section, model, seqlen_t=length, gpus=devices, gpu, microbatchsize=micro_batch, gradaccum=passes, "
                   "throughput_t_s_gpu=tokens_per_s, precision=dtype, mp_mode=sums, sharding_strategy=sharding, "
                   "activation_checkpointing=again")


def read_foundry(words, row):
    name, gpu, dtype = take(words, "model"), take(words, "gpu"), take(words, "dtype")
    own = set(words)
    set_model(words, "mpt-" + name)
    large = "Large Scale" in take(words, "section")
    add_recipe(words, {"foundry", "foundry_large" if large else "foundry_small"}, name, system=gpu, own=own)
    if take(words, "sums") == "PURE":
        words["short_sums"] = "true"
    words["precision"] = "fp8" if dtype == "amp_fp8" else "bf16"
    words["zero"] = "3" if take(words, "sharding") == "FULL_SHARD" else "2"
    words["recompute"] = "full" if take(words, "again") == "True" else "off"
    row.group, row.alike = gpu, f"{gpu} {dtype}"
    row.race = f"{name}, {words['length']} tokens, {gpu} {dtype}"
    row.what = (f"{name}, {words['length']} tokens, {words['devices']} {gpu}, {whole(words, 'passes')} x "
                f"{words['micro_batch']}")


def batch_of(words):
    passes = whole(words, "passes")
    take(words, "passes")
    return whole(words, "micro_batch") * whole(words, "devices") * passes


def read_foundry_step(words, row):
    read_foundry(words, row)
    batch = batch_of(words)
    words["batch"] = str(batch)
    row.measured = seconds_of(words, batch)
    return True


def score_llm_foundry(data):
    return trainings(data, FOUNDRY, FOUNDRY_COLUMNS, read_foundry_step, score_seconds)


def score_llm_foundry_fits(data):
    """Whether what ran fits, and one sample more, or twice as many, do not: 1 is the right answer."""
    result = None
    for group, more in (("ran", lambda n: n), ("one more", lambda n: n + 1), ("twice", lambda n: 2 * n)):
        def read(words, row, group=group, more=more):
            read_foundry(words, row)
            take(words, "tokens_per_s")
            words["micro_batch"] = str(more(whole(words, "micro_batch")))
            words["batch"] = str(batch_of(words))
            row.what += "" if group == "ran" else f", {group}"
            row.group, row.measured = group, 1.0
            return True

        def score(answer, row, ran=group == "ran"):
            row.simulated = 1.0 if answer["fits"] == ran else 0.0
            row.refused &= ran  # nobody ran the others

        part = yield from trainings(data, FOUNDRY, FOUNDRY_COLUMNS, read, score)
        if result is None:
            result = part
        else:
            result.rows += part.rows
    return result


# torchtitan: Llama 3.1 under FSDP2.

TITAN_COLUMNS = ("system, model, gpus=devices, tp=tensor, pp=pipeline, cp=context, seq=length, local_batch=micro_batch, "
                 "global_batch=batch, activation_checkpointing=again, compile, float8, async_tp, "
                 "schedule=schedule_of_stages, "
                 "tokens_per_s_per_gpu=tokens_per_s")


def read_titan(words, row):
    model, system, fp8 = take(words, "model"), take(words, "system"), take(words, "float8") != ""
    row.what = f"{model}, {words['devices']} GPUs, {words['length']} tokens{', fp8' if fp8 else ''}"
    row.group, row.alike = model, f"{system} {'true' if fp8 else 'false'}"
    row.measured = seconds_of(words, whole(words, "batch"))
    own = set(words)
    set_model(words, model)
    words["nodes"] = "dgx_h200" if system.startswith("h200") else "dgx_h100"
    if system.startswith("h100_96gb"):
        words["as"] = "h100_96gb"
    words["precision"] = "fp8" if fp8 else "bf16"
    if take(words, "compile") != "1":
        words["eager"] = "true"
    stages, samples = whole(words, "pipeline", 1), whole(words, "micro_batch")
    row.family = f"{words['context'] or 1} ranks of context parallelism"
    # As many micro-batches as stages: torchtitan, parallelisms/pipelining_utils.py (pipeline_parallel_microbatches).
    if stages > 1 and samples % stages == 0:
        words["micro_batch"] = str(samples // stages)
    row.inferred = add_recipe(words, {"titan"}, model, own=own)
    if take(words, "async_tp") == "1":
        words["overlap"] = "true"
    again = take(words, "again")
    words["recompute"] = "full" if again == "full" else "selective" if "selective" in again else "off"
    if take(words, "schedule_of_stages").startswith("Inter"):
        words["virtual"] = "2"
    return True


def score_torchtitan(data):
    return several(trainings(data, f"measured/torchtitan/{file}.csv", TITAN_COLUMNS, read_titan, score_seconds)
                   for file in ("training", "more"))


# internevo: InternLM under ZeRO 1 and FSDP.

EVO = "measured/internevo/training.csv"
EVO_COLUMNS = ("table, model, tp=tensor, zero1=group, gpus=devices, seq=length, micro_batch, micro_batches=passes, "
               "recompute=again, pp=pipeline, fsdp=sharded, memory_gb=memory, tokens_per_s_per_gpu=tokens_per_s")


def batch_of_replicas(words):
    replicas = whole(words, "devices") // whole(words, "tensor")
    return replicas, replicas * whole(words, "micro_batch") * whole(words, "passes")


def read_evo_memory(words, row):
    """Memory as nvidia-smi prints it, in GiB: with the context of CUDA and what PyTorch keeps cached."""
    if take(words, "table") != "memory":
        return False
    if take(words, "sharded") != "True":
        raise InputError("its stages have unequal numbers of layers")
    model = take(words, "model")
    row.what = f"{model}, {words['devices']} GPUs, t {words['tensor']}, FSDP"
    row.measured = take_number(words, "memory")
    words["batch"] = str(batch_of_replicas(words)[1])
    for key in ("passes", "group"):
        take(words, key)
    own = set(words)
    set_model(words, model)
    add_recipe(words, {"evo"}, model, own=own)
    words["recompute"] = "full" if take(words, "again") == "true" else "off"
    words["zero"] = "3"
    return True


def read_evo(words, row):
    if take(words, "table") == "memory":
        return False
    model = take(words, "model")
    replicas, batch = batch_of_replicas(words)
    row.what = (f"{words['devices']} GPUs, t {words['tensor']}, ZeRO 1 over {words['group']}, "
                f"{words['passes']} x {words['micro_batch']}")
    row.group, row.race = f"t {words['tensor']}", model
    row.measured = seconds_of(words, batch)
    words["batch"] = str(batch)
    for key in ("passes", "pipeline", "sharded", "memory"):
        take(words, key)
    own = set(words)
    set_model(words, model)
    words["recompute"] = "full" if take(words, "again") == "true" else "off"
    add_recipe(words, {"evo", "evo_zero1"}, model, own=own)
    words["zero"] = "1"
    group = whole(words, "group", -1, -1)
    take(words, "group")
    if 0 < group < replicas:
        words["fsdp"] = str(group)
    return True


def score_internevo(data):
    return trainings(data, EVO, EVO_COLUMNS, read_evo, score_seconds)


def score_internevo_memory(data):
    def score(answer, row):
        row.simulated = answer["peak_bytes"] / (1 << 30)
        row.work = answer["weight_bytes"]  # the baseline: so many bytes a parameter, whatever shares them

    return trainings(data, EVO, EVO_COLUMNS, read_evo_memory, score)


# bigscience: GPTs of 104 to 200 B under Megatron-DeepSpeed.

SCIENCE_COLUMNS = ("gpus=devices, hidden, layers, heads, section, size, dp=data, tp=tensor, pp=pipeline, mbs=micro_batch, "
                   "gbs=batch, s_per_iteration=seconds")
CORRECTIONS = facts("corrections.csv")


def correct_shape(words, section):
    """By corrections.csv. Else the layers follow from a size in billions of parameters."""
    size = take(words, "size")
    corrections = {one["word"]: one["value"] for one in CORRECTIONS
                   if section.startswith(one["section"]) and one["size"] in ("", size)}
    words.update(corrections)
    if size.endswith("B") and "layers" not in corrections:
        parameters, hidden = 1e9 * take_number({"size": size[:-1]}, "size"), float(whole(words, "hidden"))
        words["layers"] = str(int((parameters - 250880.0 * hidden) / (12.0 * hidden * hidden) + 0.5))


def days_of(section):
    """The page says that the network became better on 25 February, so that rows of that day are not to be compared with
    earlier ones, and that those of 28 February have another optimizer."""
    if section.startswith("Rebalancing"):
        return "from 28 February"
    return "from 25 February" if section.startswith(("GBS", "Another round", "Re-do")) else "until 24 February"


def read_science(words, row):
    section = take(words, "section")
    correct_shape(words, section)
    row.measured = take_number(words, "seconds")
    tensor, pipeline = whole(words, "tensor"), whole(words, "pipeline")
    data = whole(words, "data", whole(words, "devices", 0, 0) // (tensor * pipeline))
    w = {**words, "data": data}
    row.what = (f"h {w['hidden']}, {w['layers']} layers, t {w['tensor']} d {w['data']} p {w['pipeline']}, "
                f"micro-batch {w['micro_batch']}, batch {w['batch']}")
    row.group = f"p {w['pipeline']}"
    row.race = f"h {w['hidden']}, {w['layers']} layers, {w['heads']} heads, {days_of(section)}"
    words["devices"] = str(data * tensor * pipeline)
    take(words, "data")
    add_recipe(words, {"science"}, "", own=set(words))
    return True


def score_bigscience(data):
    return trainings(data, "measured/bigscience/a100_steps.csv", SCIENCE_COLUMNS, read_science, score_seconds)
