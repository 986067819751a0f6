"""Training steps that NVIDIA published: NeMo's tables, and the recipes of DGX Cloud."""
import bisect
import math
import re

from board import Comparison, InputError, facts, number_of
from trainings import (add_recipe, divided, score_seconds, set_model, several, take, take_number, trainings, whole,
                       words_of)

NEMO_COLUMNS = ("task, model, system, gpus=devices, precision=dtype, gbs=batch, mbs=micro_batch, seq=length, tp=tensor, "
                "pp=pipeline, cp=context, vp=virtual, step_s_computed=seconds")
SHARED_COLUMNS = ", ep=expert, fsdp=shards"  # of all but 24.07


def precision_of(dtype):
    """Of the tables. FP8 there says how it is scaled; the row's own words say the rest."""
    if dtype.startswith("FP8") or dtype == "MXFP8":
        return "fp8"
    if dtype in ("BF16", "NVFP4"):
        return dtype.lower()
    raise InputError(f"no dtype '{dtype}'" if dtype else "the row says no dtype")


def nodes_of(system):
    if system in ("H100", "B200", "B300"):
        return "dgx_" + system.lower()
    if system in ("GB200", "GB300"):
        return system.lower() + "_rack"
    raise InputError(f"no node type with {system}")


def drop_unsaid(words, keys=("virtual", "expert", "context", "expert_tensor"), unsaid=("n/a", "-", "NA", "N/A", "1")):
    for key in keys:
        if words[key] in unsaid:
            words.pop(key, None)


def send_once(words, system):
    """A token goes once to each rank of a node, or to each node, that has one of its experts: the number of these."""
    ranks, of_node = whole(words, "expert", 1), 64 if system.startswith("GB") else 8
    if words["send_once"] == "true":
        words["send_once"] = str(ranks if ranks <= of_node else divided(ranks, of_node)) if ranks > 1 else ""


# Megatron-Bridge's recipes of pretraining: scripts/performance/configs at the releases' tags, a row for each plan.
BRIDGE = facts("megatron_bridge.csv")
RELEASES = sorted({release for recipe in BRIDGE for release in recipe["releases"].split()})
DTYPES = {"BF16": ("BF16",), "NVFP4": ("NVFP4",), "FP8-MX": ("FP8_MX",), "MXFP8": ("FP8_MX",),
          "FP8-CS": ("FP8_CS",), "FP8-SC": ("FP8_SC",), "FP8": ("FP8_CS", "FP8_SC")}
HOST_OP = "147 us"  # of a kernel's launch: the median of 13 iterations of Megatron-LM's tests on H100 (megatron_ci)


def bridge_settings(words, name, release, gpu, dtype):
    """What the recipe says whose plan is the row's, or most like it, of the nearest release; {} if there is none."""
    plain = re.sub(r"\(.*|[^a-z0-9]", "", name)

    def alike(recipe):
        plan = dict(part.split("=") for part in recipe["plan"].split())
        same = {key for key, value in plan.items() if (words[key] or "1") == value}
        shape = len(same & {"tensor", "pipeline", "context", "virtual", "expert"})
        apart = min(abs(RELEASES.index(one) - at) + 9 * (one < release) for one in recipe["releases"].split())
        return (("zero" in plan) == (words["zero"] == "3"), shape, -apart, len(same))

    found = [recipe for recipe in BRIDGE if recipe["model"].replace("_", "") == plain and recipe["system"] == gpu
             and recipe["dtype"] in DTYPES.get(dtype, ())]
    if not found:
        return {}
    found = [recipe for recipe in found if recipe["releases"].split()[-1] >= release] or found
    at = min(bisect.bisect_left(RELEASES, release), len(RELEASES) - 1)  # releases before and behind: the nearest
    said = dict(part.split("=") for part in max(found, key=alike)["settings"].split())
    experts, layers = words["generator"] in ("moe", "hybrid"), said.get("recompute_layers", "")
    settings = {"recompute_modules": said.get("recompute_modules", "").replace("+", ", "),
                "recompute": "full" if layers else "", "recompute_layers": layers,
                "offload_layers": said.get("offload_layers", "") if words["zero"] == "3" else ""}
    if experts:
        settings.update(host_op="" if {"attn", "full_iteration"} & set(said.get("graph", "").split("+")) else HOST_OP, send_once="true" if "dispatcher" in said else "",
                        overlap_experts=said.get("a2a_overlap", ""),
                        short_attention=said.get("fp8_attention", ""))
    return settings


def read_nemo(words, row):
    task, kernels, release, model = (take(words, key) for key in ("task", "kernels", "release", "model"))
    system, dtype, shards = take(words, "system"), take(words, "dtype"), take(words, "shards")
    name, gpu = model.lower(), system.removeprefix("DGX-")
    launchers = {"megatron", "automodel" if kernels else "bridge" if release else "nemo"}
    own = set(words)
    if not kernels and shards not in ("", "0", "-"):
        words["zero"] = "3"
        own.add("zero")
    drop_unsaid(words, ("virtual", "expert"), ("n/a", "-", "1", "NA"))
    said = set(words)
    set_model(words, name)
    experts = words["generator"] in ("moe", "hybrid")
    if kernels:
        launchers.add("automodel_experts" if experts else "automodel_dense")
        launchers |= {"automodel_lora"} if task == "lora" else set()
    elif experts:
        launchers.add("experts")
    if not kernels and not release and task != "pretrain":
        launchers.add(task)
    row.inferred = add_recipe(words, launchers, name, release, gpu, dtype, said)
    if dtype:
        row.inferred = tuple(setting for setting in row.inferred if not setting.startswith("precision="))
    dtype = dtype or take(words, "precision")
    words["precision"] = precision_of(dtype)
    if "bridge" in launchers:
        words.update(bridge_settings(words, name, release, gpu, dtype))
    send_once(words, gpu)
    row.what = f"{model}, {words['devices']} {system}, {dtype}"
    row.group, row.alike = model, f"{system} {dtype}"
    row.measured = take_number(words, "seconds")
    words["nodes"] = nodes_of(gpu)
    if "DeepEP" in kernels and not words["expert"]:
        raise InputError("ranks share its experts, and the row does not say how many")
    return True


def score_nemo(data):
    return several(trainings(data, f"measured/nemo/{file}.csv", columns, read_nemo, score_seconds)
                   for file, columns in (("megatron_bridge", NEMO_COLUMNS + SHARED_COLUMNS + ", release"),
                                         ("automodel", NEMO_COLUMNS + SHARED_COLUMNS + ", kernels"),
                                         ("nemo_24.07", NEMO_COLUMNS)))


# DGX Cloud. The plan is in the title of a table, in their table of configurations, or that of its page's other releases.

CLOUD_COLUMNS = ("page, title, system, gpus=devices, precision=dtype, gbs=batch, step_s=seconds, tokens_per_s, samples_per_s, "
                 "release")
CLOUD_PLANS = facts("dgxc_plans.csv")
CONFIGURATION_COLUMNS = ("page, system, GPUs=devices, release, Size=size, Precision=dtypes, SeqLen=length, Layers=layers, "
                         "TP=tensor, PP=pipeline, CP=context, VP=virtual, MBS=micro_batch, GBS=batch, EP=expert, "
                         "ETP=expert_tensor")


def cloud_configurations(data):
    """Rows of their table of configurations: what it is of, and the words of its plan."""
    rows = []
    for line in data.read("measured/dgxc/configurations.csv", Comparison()):
        plan = words_of(line, CONFIGURATION_COLUMNS)
        of = {key: take(plan, key) for key in ("page", "system", "devices", "release", "size", "dtypes")}
        of["size"] = of["size"].lower().split("-")[0]  # "405b-Proxy" has fewer layers
        of["system"] = of["system"] or "H100"
        drop_unsaid(plan, unsaid=("NA", "N/A"))
        if "tensor" in plan and "layers" in plan:
            rows.append((of, plan))
    return rows


def configuration_of(configurations, page, system, devices, release, title, dtype):
    """The plan of the first release from the row's own on that has the page's row; else that of the page's nearest number
    of GPUs, but for its batch: the pages scale weakly. None if there is neither."""
    found = [(of["devices"], of["release"], plan) for of, plan in configurations
             if (of["page"], of["system"]) == (page, system) and of["release"] >= release
             and of["size"] in title.lower() and (not of["dtypes"] or dtype in of["dtypes"])]
    same = [one for one in found if one[0] == devices]
    if same:
        return min(same, key=lambda one: one[1])[2]
    if not found or "Dev" in title:  # models of Dev pages have fewer layers on fewer GPUs
        return None
    plan = min(found, key=lambda one: (abs(math.log(int(one[0]) / int(devices))), one[1]))[2]
    return {key: value for key, value in plan.items() if key not in ("batch", "layers")}


def said_number(text, key, unsaid=""):
    found = re.search(rf"{key}=(\d*)", text)
    return found[1] if found else unsaid


def share_experts(words):
    """Megatron-LM divides experts among the ranks of tensor parallelism unless it is told to divide them among fewer.
    Source: Megatron-LM, core/model_parallel_config.py."""
    divided_by = whole(words, "expert_tensor", whole(words, "tensor", 1))
    if words["generator"] != "moe":
        take(words, "expert")
        take(words, "expert_tensor")
    else:
        words["expert_tensor"] = str(divided_by)
        words["expert"] = str(divided_by * whole(words, "expert", 1))


# ultrachat_200k has 463897 conversations to train with and 51414 to test with, which the recipes pack to 2048 tokens: 245760 samples
# were 0.9 of an epoch. Source: dgxc-benchmarking v24.11.1, hf-llama2/README_70b.md (log), launch_70b.sh (evaluation_strategy "epoch").
EPOCH, EPOCH_TESTS = 273_000, 30_257


def read_cloud(configurations, words, row):
    title, system, dtype, page, release = (take(words, k) for k in ("title", "system", "dtype", "page", "release"))
    plan = next((p for p in CLOUD_PLANS if title.lower().startswith(p["title"].lower())), None)
    titled = "TP=" in title
    configured = None if titled else configuration_of(configurations, page, system, words["devices"], release,
                                                      title, dtype)
    if plan is None or not (plan["plan"] or configured or titled):
        raise InputError(f"no plan is said for '{title}'")
    said, model, length = title if titled else plan["plan"], plan["model"], int(plan["length"])
    sharded, tuned, lora, passes = "FSDP" in said, "Finetuning" in title, "LORA" in title, said_number(plan["plan"], "GA")
    row.what = f"{title.split(' (')[0]}, {words['devices']} {system}"
    row.group, row.alike = f"{model} {dtype}", f"{system} {dtype}"
    words["micro_batch"] = said_number(f"{title} {said}", "MBS", "2" if sharded else "1")
    samples, tokens = take(words, "samples_per_s"), number_of(take(words, "tokens_per_s")) or 0.0
    if passes:  # Hugging Face's trainer prints samples per second, of training and of tests at the end of each epoch
        sample = whole(words, "devices") * whole(words, "micro_batch")
        batch, steps = sample * int(passes), int(said_number(plan["plan"], "STEPS"))
        # A test is a forward pass, a third of what recomputes and has frozen weights.
        tests = -(-steps // max(1, EPOCH // batch)) * -(-EPOCH_TESTS // sample) / 3
        seconds = batch / take_number({"samples_per_s": samples}, "samples_per_s")
        words.update(batch=str(batch), seconds=str(seconds / (1 + tests / steps / int(passes))))
    row.measured = take_number(words, "seconds")
    # Weak scaling: the batch is what the rate says, in whole samples for each GPU.
    words.setdefault("batch", str(int(row.measured * tokens / length + 0.5) // 8 * 8))
    words["length"] = str(length)
    for key, word in (("TP", "tensor"), ("PP", "pipeline"), ("CP", "context"), ("VP", "virtual")):
        words[word] = said_number(said, key, "1")
    words["nodes"] = nodes_of(system)
    words["precision"] = precision_of(dtype)
    own = set(words)
    set_model(words, model)
    for word, value in (configured or {}).items():
        if word != "layers" or words["generator"] != "hybrid":
            words[word] = value
    drop_unsaid(words, ("virtual", "expert"), ("n/a", "-", "1", "NA"))
    launchers = {"megatron", "maxtext" if sharded else ("cloud_lora" if lora else "cloud_sft") if tuned else "cloud"}
    launchers = {"cloud_hf"} if passes else launchers
    add_recipe(words, launchers, model, release, system, dtype, own)
    share_experts(words)
    return True


def score_dgxc(data):
    configurations = cloud_configurations(data)
    return trainings(data, "measured/dgxc/training.csv", CLOUD_COLUMNS,
                     lambda words, row: read_cloud(configurations, words, row), score_seconds)
