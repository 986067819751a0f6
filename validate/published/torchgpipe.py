"""ResNet-101 and U-Net trained by torchgpipe on 1-8 P40 (Kim et al. 2020): speed-ups over one GPU without a pipeline."""
import os

from board import HERE, Comparison, InputError, Scored, Table
from examples import answered

STEPS = "measured/torchgpipe/steps.csv"
# What V100 reaches in FP32 under PyTorch (v100_pytorch): nobody measured P40's shares.
P40 = {"base": "p40", "efficiency": {"default": 0.807, "Conv2d": 1}, "half": {"fp32": "77.2 MFLOP"}, "bandwidth_efficiency": 0.842,
       "launch": "4.28 us"}


def ops_of(model):
    """The generator's ops, and how many of torchgpipe's modules each one is."""
    if model == "resnet101":
        block = (("conv1", 4), ("conv2", 3), ("conv3", 2), ("sum", 2))
        blocks = [(f"layer{stage + 1}.{i}/{op}", n) for stage, count in enumerate((3, 4, 23, 3)) for i in range(count) for op, n in block]
        return [("conv1", 3), ("pool1", 1), *blocks, ("avgpool", 1), ("flatten", 1), ("fc", 1)]
    convolutions = [(f"conv{i}", 4) for i in range(5)]
    levels = [(f"encode{i}", [*convolutions, ("skip", 1), ("down", 1)]) for i in range(5)] + [("middle", convolutions)]
    levels += [(f"decode{i}", [("up", 1), ("concat", 1), *convolutions]) for i in reversed(range(5))]
    return [(f"{level}/{op}", n) for level, ops in levels for op, n in ops] + [("segment", 1)]


def starts_of(model, balance):
    """The first op of each stage but the first: an op that a cut divides stays before it."""
    starts, sizes, done = [], [int(size) for size in balance.split("+")], 0
    cuts = [sum(sizes[:i]) for i in range(1, len(sizes))]
    for op, modules in ops_of(model):
        if len(starts) < len(cuts) and done >= cuts[len(starts)] and not op.endswith("/skip"):
            starts.append(op)
        done += modules
    if done != sum(sizes) or len(starts) < len(cuts):
        raise InputError(f"balance '{balance}' is not of {done} modules")
    return starts


def step_of(model, samples, **more):
    options = {"batch": samples, "optimizer": "sgd"}
    return {"ask": "step", "generator": "unet" if model == "unet_5_64" else model, "device": P40, "options": options, **more}


def rows_of(table, result):
    for r in table:
        with result.row(r):
            if r["model"] not in ("resnet101", "unet_5_64"):
                raise InputError(f"model '{r['model']}' is not resnet101 or unet_5_64")
            yield r, r["model"], r["experiment"] == "baseline", r.whole("batch", 1), r.number("samples_per_s", 1e-9)


def score_torchgpipe(data):
    """The time of one GPU without a pipeline is given: all ops' times are scaled to it."""
    result = Comparison()
    table = data.read(STEPS, result)
    with open(os.path.join(HERE, "data", STEPS), encoding="utf-8", newline="") as shipped:
        given = [*rows_of(Table(shipped.read(), STEPS).rows, Comparison()), *rows_of(table, Comparison())]
    alone = {model: (batch, rate) for _, model, baseline, batch, rate in given if baseline}
    simulated = {}
    for model, answer in zip(alone, answered((yield [step_of(model, batch) for model, (batch, _) in alone.items()]))):
        simulated[model] = answer["step_time_us"]
    questions = []
    for r, model, baseline, batch, rate in rows_of(table, result):
        with result.row(r):
            if baseline:
                raise InputError("one GPU without a pipeline: given, not predicted")
            if r["checkpoint"] != "except_last":
                raise InputError(f"checkpoint '{r['checkpoint']}' is not except_last")
            gpus, passes = r.whole("gpus", 1), r.whole("micro_batches", 1)
            samples, speed = alone[model]
            questions.append(step_of(
                model, batch // passes, scale=1e6 * samples / speed / simulated[model], starts=starts_of(model, r["balance"]),
                pipeline="gpipe", micro_batches=passes, cluster={"devices": {"count": gpus, "kind": "p40"}, "link": {"kind": "pcie3"}}))
            result.rows.append(Scored(f"{model}, {r['experiment']}", model, rate / speed, batch / speed, alike="all",
                                      work=0.75 * gpus * passes / (gpus + passes - 1), family=f"{gpus} GPUs", lines=[r.line]))
    for row, answer in zip(result.rows, answered((yield questions))):
        row.simulated *= 1e6 / answer["step_time_us"]
    return result
