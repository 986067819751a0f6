"""Steps of GPTs that vTrain measured (MICRO 2024), and the order of plans in all blocks of trainings."""
import json
import math
from dataclasses import replace

from board import Comparison, InputError, Scored, errors_of, facts, median
from open_trainings import score_bigscience, score_internevo, score_llm_foundry
from trainings import divided, question_of

FIELDS = {"gpus": "# GPUs", "batch": "global batch", "micro_batch": "micro batch", "hidden": "hidden size",
          "heads": "attention heads", "layers": "# layers", "length": "sequence length", "tensor": "tensor parallelism",
          "data": "data parallelism", "pipeline": "pipeline parallelism"}


class Step:
    """A row: a training step of a GPT, as Megatron-LM runs it in half precision."""

    def __init__(self, row):
        for name, column in FIELDS.items():
            setattr(self, name, row.whole(column, 1))
        self.ms, self.line = row.number("iteration time (ms)"), row.line
        self.vocabulary, self.recompute, self.loss = 51200, "full", "separate"
        self.micro_batches = self.batch // (self.data * self.micro_batch)
        if self.tensor * self.data * self.pipeline > self.gpus or self.micro_batches < 1:
            raise InputError(f"{row.where('# GPUs')}: no such step: {self.what()}")

    def what(self):
        return (f"h {self.hidden}, {self.layers} layers, batch {self.batch} in {self.micro_batch}, t {self.tensor} "
                f"d {self.data} p {self.pipeline}")

    def question(self, **others):
        devices = self.tensor * self.data * self.pipeline
        words = {key: getattr(self, key) for key in ("batch", "micro_batch", "hidden", "heads", "layers", "length",
                                                     "tensor", "pipeline", "vocabulary", "recompute", "loss")}
        return question_of({**words, "generator": "gpt", "tied": "false", "kernels": "megatron", "as": "a100_megatron",
                            "devices": devices, "precision": "fp16",
                            "nodes": {"kind": "dgx_a100", "nics": 4, "count": divided(devices, 8)}, **others})

    def flops(self):
        """Of one GPU for the batch, in a layer and in the logits: 2 for each parameter and token forward, twice that
        backward, and with recomputing a layer forward once more."""
        ranks = self.tensor * self.data * self.pipeline
        passes = 4 if self.recompute == "full" else 3
        hidden = 1.0 * self.batch * self.length * self.hidden
        layer = 2 * passes * hidden * (12 * self.hidden + 2 * self.length)
        return layer / ranks, 6 * hidden * self.vocabulary / ranks


def steps_of(data, file, comparison):
    steps = []
    for row in data.read(file, comparison):
        with comparison.row(row):
            steps.append(Step(row))
    return steps


def of_others():
    """{hidden size: the device type whose numbers are fitted without its rows}."""
    return {int(row["hidden"]): json.loads(row["device"]) for row in facts("left_out_vtrain.csv")}


def left_out_of(rows):
    return {"group": "hidden size (but for the network's two numbers)", **errors_of(rows)} if rows else None


def score_vtrain_multi_node(data):
    comparison, others, left = Comparison(), of_others(), []
    steps = steps_of(data, "vtrain/measured_multi_node.csv", comparison)
    answers = yield ([step.question() for step in steps]
                     + [step.question(**{"as": others.get(step.hidden, "a100_megatron")}) for step in steps])
    for step, answer, without in zip(steps, answers, answers[len(steps):]):
        if "error" in answer:
            comparison.skip(step.line, answer["error"])
            continue
        layer, head = step.flops()
        comparison.rows.append(Scored(step.what(), f"{step.gpus} GPUs", step.ms, answer["step_time_us"] / 1e3,
                                      step.layers * layer + head, race=f"h {step.hidden}, {step.layers} layers",
                                      lines=[step.line]))
        left.append(replace(comparison.rows[-1], simulated=without["step_time_us"] / 1e3))
    comparison.left_out = left_out_of(left)
    return comparison


# vTrain's steps on one node are sums of pieces that were profiled alone: for one number of ranks of tensor parallelism,
# hidden size and micro-batch, and without replicas, T = a M l + b M + c + e l holds to the nanosecond, M micro-batches and
# l layers. Its rows are therefore no measurements of steps. The block takes a (a layer) and b (logits and loss, and the
# embedding) out of the rows, and makes both of the kernels of a step of one layer, as vTrain did: it traces such a step by
# CUPTI's activities KERNEL, under which no kernel begins before the one before it has ended, and counts the gaps. So
# launches and kernels add up. Source: VIA-Research/vTrain, src/predictor.py (parse_traces), profiler/cupti.cpp (initTrace).


def determined(steps):
    """Whether they determine four numbers: two numbers of micro-batches with two of layers each."""
    layers = {}
    for step in steps:
        layers.setdefault(step.micro_batches, set()).add(step.layers)
    return sum(len(different) > 1 for different in layers.values()) > 1


def found_together(steps):
    """Without a pipeline: the steps whose pieces are found together, their numbers of replicas, and of samples."""
    by_both, layers = {}, {}
    for step in steps:
        if step.pipeline == 1:
            by_both.setdefault((step.data, step.micro_batch), []).append(step)
    replicas = {data for (data, _), of_both in by_both.items() if determined(of_both)}
    for (data, micro_batch), of_both in by_both.items():
        if data in replicas:
            layers.setdefault(micro_batch, set()).update(step.layers for step in of_both)
    samples = {micro_batch for micro_batch, different in layers.items() if len(different) > 1}
    rows = [s for s in steps if s.pipeline == 1 and s.data in replicas and s.micro_batch in samples]
    return rows, sorted(replicas), sorted(samples)


def solve(a):
    """x of a x = b by Gauss-Jordan elimination; b is the last column of `a`."""
    n = len(a)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(a[k][i]))
        a[i], a[pivot] = a[pivot], a[i]
        if not abs(a[i][i]) > 1e-30:
            raise InputError("the rows do not determine the fit")
        a[i] = [x / a[i][i] for x in a[i]]
        for k in set(range(n)) - {i}:
            a[k] = [x - a[k][i] * y for x, y in zip(a[k], a[i])]
    return [row[n] for row in a]


def least_relative_deviations(rows, n, rounds=60, least=1e-5):
    """The x of n numbers for which the sum of |features . x / measured - 1| is least, by reweighted least squares. A row is
    ({index: feature}, measured)."""
    scale = [max((abs(f[i]) / measured for f, measured in rows if i in f), default=0.0) or 1.0 for i in range(n)]
    weights = [1.0] * len(rows)
    for _ in range(rounds):
        normal = [[0.0] * (n + 1) for _ in range(n)]
        for (features, measured), weight in zip(rows, weights):
            for i, feature in features.items():
                f = feature / measured / scale[i]
                normal[i][n] += weight * f
                for j, other in features.items():
                    normal[i][j] += weight * f * other / measured / scale[j]
        x = [value / s for value, s in zip(solve(normal), scale)]
        for r, (features, measured) in enumerate(rows):
            value = 0.0
            for i in sorted(features):
                value += x[i] * features[i]
            weights[r] = 1.0 / max(least, abs(value / measured - 1.0))
    return x


def pieces_of(steps, comparison):
    """{micro-batch: [a, b, its step of one layer, lines]} of steps of one number of ranks and hidden size."""
    rows, replicas, samples = found_together(steps)
    fit = []
    for s in rows:
        piece, update = 2 * samples.index(s.micro_batch), 2 * (len(samples) + replicas.index(s.data))
        fit.append(({piece: float(s.micro_batches) * s.layers, piece + 1: float(s.micro_batches), update: 1.0,
                     update + 1: float(s.layers)}, s.ms))
    x = least_relative_deviations(fit, 2 * (len(samples) + len(replicas))) if rows else []
    pieces = {micro_batch: [x[2 * i], x[2 * i + 1], None, []] for i, micro_batch in enumerate(samples)}
    for s in steps:
        if s.micro_batch not in pieces:
            comparison.skip(s.line, "too few rows of its pieces to take them apart")
            continue
        pieces[s.micro_batch][2] = s
        pieces[s.micro_batch][3].append(s.line)
    for micro_batch, (_, _, s, _) in pieces.items():
        s.gpus, s.data, s.pipeline, s.layers, s.batch = s.tensor, 1, 1, 1, micro_batch
    return pieces


# Kernels of vTrain's head that move next to nothing, and which the graph has not. Forward: ids compared, copied, masked,
# positions made, and a sum of the two embeddings apart: 5; the picked losses: 1. Backward: the gradient of the loss, and the
# zeros and the values of the picked ones: 3; zeros of the two tables: 2. Source: VIA-Research/vTrain, src/model/gpt_modeling.py
# (ShardedGptEmbeddings); PyTorch's CrossEntropyLoss.
SMALL_KERNELS_OF_HEAD = 11
# vTrain's profiler is emptied at the beginning and at the end of each traced pass: of the layer forward and backward, of the
# head's embeddings and logits both ways, and of the loss forward. Source: profiler/cupti.cpp (timestamp), src/trainer.py
# (modify_functions). How long that takes is read off the heads, whose times begin at 1.6 to 2.4 ms.
STAMPS_OF_LAYER, STAMPS_OF_HEAD, STAMP_NS = 4, 10, 150_000


def ms_of(piece, host_op_ns, kernels, stamps):
    """Its kernels and launches one after the other, in whole nanoseconds."""
    return (round(piece["time_us"] * 1e3) + host_op_ns * (piece["kernels"] + kernels) + stamps * STAMP_NS) / 1e3 / 1e3


def score_vtrain_pieces(data):
    """vTrain's program makes its steps of the kernels of one traced step: nothing is computed again, a rank has 50 257 words
    divided by the ranks and rounded down, and the loss is PyTorch's, in 16 bits. Source: VIA-Research/vTrain,
    src/model/gpt_modeling.py, src/trainer.py."""
    comparison, groups, pieces, others, left = Comparison(), {}, [], of_others(), []
    for s in steps_of(data, "vtrain/measured_single_node.csv", comparison):
        s.vocabulary, s.recompute, s.loss = 50257 // s.tensor * s.tensor, "off", "fused"
        groups.setdefault((s.tensor, s.hidden), []).append(s)
    for key in sorted(groups):
        pieces += pieces_of(groups[key], comparison).values()
    answers = yield ([s.question(pieces="true") for _, _, s, _ in pieces]
                     + [s.question(pieces="true", **{"as": others.get(s.hidden, "a100_megatron")}) for _, _, s, _ in pieces])
    for i, (answer, (a, b, s, lines)) in enumerate(zip(answers, pieces + pieces)):
        if "error" in answer:
            raise InputError(f"{s.what()}: {answer['error']}")
        what, host = f"t {s.tensor}, h {s.hidden}, micro-batch {s.micro_batch}", round(answer["host_op_us"] * 1e3)
        layer, head = s.flops()
        (comparison.rows if i < len(pieces) else left).extend((
            Scored(what, "layer", a, ms_of(answer["layers"], host, 0, STAMPS_OF_LAYER), layer, lines=lines),
            Scored(what + ", head", "head", b, ms_of(answer["ends"], host, SMALL_KERNELS_OF_HEAD, STAMPS_OF_HEAD), head, lines=lines)))
    comparison.left_out = left_out_of(left)
    return comparison


# Plans of one model on one machine: their measured order beside the simulated one.


def ranks(values):
    """From 1/2 on; equal values have their mean."""
    ordered = sorted(values)
    return [(ordered.index(v) + len(ordered) - ordered[::-1].index(v)) / 2.0 for v in values]


def spearman(a, b):
    x, y, mean = ranks(a), ranks(b), len(a) / 2.0
    xy = xx = yy = 0.0
    for i, j in zip(x, y):
        xy, xx, yy = xy + (i - mean) * (j - mean), xx + (i - mean) ** 2, yy + (j - mean) ** 2
    return xy / math.sqrt(xx * yy) if xx > 0.0 and yy > 0.0 else math.nan


def add_race(comparison, source, name, rows):
    """A row for the plan that is simulated to be the fastest, and one for the order of plans of which the slowest takes a
    quarter more than the fastest: the order of equal plans is noise. Rows of equal simulated time are one plan, which was
    measured several times. Times are for the same work of a GPU."""
    plans, lines = {}, [line for row in rows for line in row.lines]
    for row in rows:
        plans.setdefault(row.simulated / row.work, []).append(row.measured / row.work)
    if len(plans) < 4:  # plans whose order says something
        return
    simulated = sorted(plans)
    measured = [median(plans[time]) for time in simulated]
    what, fastest = f"{source}: {name}, {len(simulated)} plans", min(measured)
    if max(measured) >= 1.25 * fastest:
        comparison.rows.append(Scored(what + ", order", "order: Spearman, where times differ by a quarter", 1.0,
                                      spearman(simulated, measured), lines=lines, family=source))
    comparison.rows.append(Scored(what + ", first", "regret of the plan ranked first", fastest, measured[0], lines=lines,
                                  family=source))


def score_plans(data):
    comparison = Comparison()
    for source, score in (("vtrain", score_vtrain_multi_node), ("llm_foundry", score_llm_foundry),
                          ("internevo", score_internevo), ("bigscience", score_bigscience)):
        of_source, races = (yield from score(data)), {}
        comparison.files.update(of_source.files)
        for row in of_source.rows:
            if row.race and row.work > 0.0 and row.measured > 0.0:
                races.setdefault(row.race, []).append(row)
        for name in sorted(races):
            add_race(comparison, source, name, races[name])
    return comparison
