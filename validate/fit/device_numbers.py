"""Device types under four frameworks, fitted to NVIDIA's example networks (dlexamples/).

A number is a product: of one for the dtype, and of deviations of the GPU and of the framework, which are pulled to 1, so
that a GPU under a framework that nobody measured together has numbers, too:
  share of the peak, by type of op:  dtype x (GPU and dtype) x (framework and dtype) x (all three)
  flops at half of it:               dtype x framework x (GPU and dtype) x type of op
  share of the bandwidth:            one x GPU x framework
  launch of a kernel:                one x framework
  host time of an op, of a pass:     one x framework x GPU, whose machine has its own processors
"""
import math

import numpy as np

from board import Comparison, InputError, percent
from examples import inference_rows, step_question, training_rows
from kernel_numbers import device_sheets

SHARES = ("", "Conv2d", "GroupedConv2d")
NEAR = 0.02  # below it, a logarithm weighs as if it were so large
PULL = 0.2  # moving a deviation by a factor of e must explain so much of one row's logarithm
STARTS = {"share": 0.6, "share Conv2d": 0.5, "share GroupedConv2d": 0.15, "half": 5e7, "bandwidth": 0.75, "launch": 2e-6,
          "host_op": 4e-5, "host_step": 2e-3}
FITTED = {"v100_32gb": "v100", "a100_40gb": "a100"}  # GPUs that share another's numbers


class Case:
    """A measured step and the kernels of its passes."""

    def __init__(self, row, runs, sheet):
        self.row, self.measured = row, row.seconds()
        gpu, _, self.framework = row.device().rpartition("_")
        self.gpu = FITTED.get(gpu, gpu)
        self.runs = []
        for times, ops in runs:
            kernels = [(i, *kernel) for i, op in enumerate(ops) for kernel in op]
            dtype = ["fp16" if k[2] == "bf16" else k[2] for k in kernels]
            share = [2 if k[1].startswith("GroupedConv2d") else 1 if k[1].startswith("Conv2d") else 0 for k in kernels]
            self.runs.append((times, len(ops), np.array([k[0] for k in kernels]), dtype, share,
                              np.array([k[3] for k in kernels], float), np.array([k[4] for k in kernels], float)))
        self.peak = {dtype: 1e6 * rate for dtype, rate in sheet["peak"].items()}
        self.bandwidth = 1e6 * sheet["bytes"]
        self.formats = {d for run in self.runs for d, flops in zip(run[3], run[5]) if flops > 0}
        missing = self.formats - set(self.peak)
        if missing:
            raise InputError(f"{row.text()}: {row.device()} has no peak in {', '.join(sorted(missing))}")

    def names(self, what, dtype=None, kind=""):
        gpu, framework = self.gpu, self.framework
        if what == "half":
            return [f"half:{dtype}", f"half@{framework}", f"half:{dtype}@{gpu}", f"half@of {kind}"]
        if dtype:
            return [f"{what}:{dtype}{of}" for of in ("", f"@{gpu}", f"@{framework}", f"@{gpu}@{framework}")]
        return [what, f"{what}@{framework}"] + ([f"{what}@{gpu}"] if what != "launch" else [])


class Numbers:
    def __init__(self, cases):
        self.cases, names, rates, runs, ops, kernels = cases, {}, [], [], [], []
        others = {what: [] for what in ("bandwidth", "launch", "host_op", "host_step")}

        def of(case, what, *about):
            return [names.setdefault(name, len(names)) for name in case.names(what, *about)]

        for c, case in enumerate(cases):
            own = {}
            for times, count, op, dtype, share, flops, traffic in case.runs:
                runs.append((c, times, len(ops), count))
                kernels += [(c, own.setdefault((s, d), len(rates) + len(own)), len(ops) + o, f, b)
                            for o, d, s, f, b in zip(op, dtype, share, flops, traffic)]
                ops += [(c, place) for place in range(1, count + 1)]
            rates += [(c, of(case, f"share {SHARES[s]}".strip(), d), of(case, "half", d, SHARES[s]), case.peak.get(d, math.inf))
                      for s, d in own]
            for what, ids in others.items():
                ids.append(of(case, what))
        self.case, self.share, self.half, self.peak = (np.array(column) for column in zip(*rates))
        self.others = {what: np.array(ids) for what, ids in others.items()}
        self.runs, self.ops, self.kernels = ([np.array(column) for column in zip(*rows)] for rows in (runs, ops, kernels))
        self.bandwidth, self.measured = (np.array([getattr(c, key) for c in cases]) for key in ("bandwidth", "measured"))
        self.names = list(names)
        self.start = np.array([0.0 if "@" in name else math.log(STARTS[name.split(":")[0]]) for name in self.names])
        self.deviation = np.array(["@" in name for name in self.names])
        self.x = self.start.copy()

    def seconds(self, x):
        """Of each case, by the engine's recurrence: the host launches op after op, and an op begins when it is launched
        and the op before it has ended. And the derivatives of the logarithms: where the host is last at an op, a run
        takes its launches up to there, and the ops from there on."""
        share, half = np.exp(x[self.share].sum(1)), np.exp(x[self.half].sum(1))
        bandwidth, launch, host_op, host_step = (np.exp(x[ids].sum(1)) for ids in self.others.values())
        rate = self.peak * np.minimum(1.0, share)
        case, kind, op, flops, traffic = self.kernels
        fixed = np.where(flops > 0.0, half[kind] / rate[kind], 0.0)
        arithmetic, moved = flops / rate[kind] + fixed, traffic / (self.bandwidth * np.minimum(1.0, bandwidth))[case]
        taken = np.bincount(op, launch[case] + np.maximum(arithmetic, moved), len(self.ops[0]))
        of, times, first, count = self.runs
        before, place = np.cumsum(taken) - taken, np.arange(len(taken))
        waits = host_step[self.ops[0]] + host_op[self.ops[0]] * self.ops[1] - before + np.repeat(before[first], count)
        longest = np.maximum.reduceat(waits, first)
        last = np.minimum.reduceat(np.where(waits == np.repeat(longest, count), place, len(taken)), first)
        late = longest > 0.0
        seconds = np.bincount(of, times * (np.add.reduceat(taken, first) + np.where(late, longest, 0.0)), len(self.cases))

        slopes, every = np.zeros((len(self.cases), len(x))), np.arange(len(self.cases))
        weight = (np.repeat(times, count) * (place >= np.repeat(np.where(late, last, first), count)))[op]
        bound = arithmetic >= moved
        def add(cases, ids, values):
            np.add.at(slopes, (cases[:, None], ids), values[:, None])
        add(self.case, self.share, (share < 1.0) * -np.bincount(kind, weight * bound * arithmetic, len(share)))
        add(self.case, self.half, np.bincount(kind, weight * bound * fixed, len(share)))
        add(every, self.others["bandwidth"], (bandwidth < 1.0) * -np.bincount(case, weight * ~bound * moved, len(every)))
        add(every, self.others["launch"], launch * np.bincount(case, weight, len(every)))
        add(of[late], self.others["host_step"][of[late]], (times * host_step[of])[late])
        add(of[late], self.others["host_op"][of[late]], (times * host_op[of] * self.ops[1][last])[late])
        return seconds, slopes / seconds[:, None]

    def fit(self, use, rounds=40, near=0.5):
        """The least sum of absolute logarithms of simulated / measured over `use`, and of pulls, by reweighted least
        squares."""
        def residuals(x):
            seconds, slopes = self.seconds(x)
            return np.log(seconds / self.measured)[use], slopes[use]

        def loss(x, left):  # squares below `near`, so that the reweighted step descends
            both = np.abs(np.concatenate((left, PULL * x[self.deviation])))
            floor = np.concatenate((np.full(len(left), near), np.full(self.deviation.sum(), PULL * near)))
            return np.where(both < floor, both ** 2 / (2.0 * floor) + floor / 2.0, both).sum()

        use, x, damping = sorted(use), self.x.copy(), 0.1
        left, slopes = residuals(x)
        for _ in range(rounds):
            near = max(NEAR, 0.75 * near)
            weights, pulls = (1.0 / np.maximum(np.abs(values), near) for values in (left, x))
            pulls *= PULL * self.deviation
            square = (slopes.T * weights) @ slopes + np.diag(pulls)
            for _ in range(5):
                move = np.linalg.solve(square + np.diag(damping * np.diag(square) + 1e-6),
                                       -(slopes.T * weights) @ left - pulls * x)
                tried = np.clip(x + move, self.start - 4.0, self.start + 4.0)
                found = residuals(tried)
                if loss(tried, found[0]) < loss(x, left):
                    x, (left, slopes), damping = tried, found, damping / 3.0
                    break
                damping *= 4.0
            else:
                damping = 1.0
        self.x = x
        return self

    def value(self, names):
        return math.exp(sum(self.x[self.names.index(name)] for name in names if name in self.names))

    def yaml(self, case):
        formats = [d for d in case.peak if f"share:{'fp16' if d == 'bf16' else d}" in self.names]
        def of(d):
            return "fp16" if d == "bf16" else d
        shares = ",\n                  ".join(
            f"{d}: {{" + ", ".join(f"{kind or 'default'}: "
                                   f"{min(1.0, self.value(case.names(f'share {kind}'.strip(), of(d)))):.3g}"
                                   for kind in SHARES) + "}" for d in formats)
        half = ", ".join([f"{d}: {self.value(case.names('half', of(d))) / 1e6:.3g} MFLOP" for d in formats] + [
            f"{kind}: {self.value([f'half@of {kind}']) / self.value(['half@of ']):.3g}" for kind in SHARES[1:]])
        us = ", ".join(f"{what}: {1e6 * self.value(case.names(what)):.3g} us" for what in ("launch", "host_op", "host_step"))
        return (f"  {case.row.device()}:\n    {{efficiency: {{{shares}}},\n     half: {{{half}}},\n     bandwidth_efficiency: "
                f"{min(1.0, self.value(case.names('bandwidth'))):.3g}, no_kernel: 0 us, {us}}}\n")


def cases_of(data, program, folder):
    comparison, rows = Comparison(), []
    for read in (inference_rows, training_rows):
        rows += [row for row in read(data, comparison) if row.gpus == 1 and not row.unknown()]
    if not rows:
        raise InputError(f"{data.folder}: no dlexamples/*.csv")
    questions, parts = [], []
    for row in rows:
        parts.append([(1.0, len(questions))])
        questions.append(step_question(row, kernels=True))
        if row.passes > 1:
            parts[-1].append((float(row.passes - 1), len(questions)))
            questions.append(step_question(row, {"optimizer": "none"}, kernels=True))
    answers = program.ask(questions)
    known = device_sheets(folder)
    return [Case(row, [(times, answers[i]["ops"]) for times, i in part], known[row.device()])
            for row, part in zip(rows, parts)]


def cross_validate(numbers, fold_of):
    """(row, seconds by the others) where a fold is left out at a time; `fold_of` a row, None: it is always fitted to.
    Each fit begins at that to all rows."""
    everything, whole, folds, predicted = set(range(len(numbers.cases))), numbers.x, {}, []
    for i, case in enumerate(numbers.cases):
        if fold_of(case.row) is not None:
            folds.setdefault(fold_of(case.row), []).append(i)
    for members in folds.values():
        numbers.x = whole
        seconds, _ = numbers.fit(everything - set(members), 14, 0.3).seconds(numbers.x)
        predicted += [(numbers.cases[i].row, seconds[i]) for i in members]
    numbers.x = whole
    return predicted


def fit(data, program, folder):
    """The device types, and the lines of validate/published/left_out_examples.csv."""
    cases = cases_of(data, program, folder)
    numbers, text, left_out = Numbers(cases), "", ["row,ms"]
    numbers.fit(range(len(cases)))
    for what, fold_of in (
            ("inference, a framework, network and GPU left out at a time",
             lambda row: (row.base(), row.model, row.machine) if not row.training else None),
            ("training, a framework, model and machine left out at a time",
             lambda row: (row.framework, row.model, row.machine) if row.training else None)):
        predicted = cross_validate(numbers, fold_of)
        errors = [abs(seconds / row.seconds() - 1.0) for row, seconds in predicted]
        text += f"# {what}: {percent(sum(errors) / len(errors))} of {len(errors)} rows\n"
        left_out += [f'"{row.text()}",{1e3 * seconds:.5g}' for row, seconds in predicted]
    errors = np.abs(numbers.seconds(numbers.x)[0] / numbers.measured - 1.0)
    text = f"# {len(numbers.names)} numbers, {len(cases)} steps: mean error {percent(errors.mean())}\n" + text
    return text + "".join(numbers.yaml(case) for case in {c.row.device(): c for c in cases}.values()), left_out
