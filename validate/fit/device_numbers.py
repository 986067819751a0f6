"""Device types under four frameworks, fitted to NVIDIA's example networks (dlexamples/).

A number is a product: of one for the dtype, and of deviations of the GPU and of the framework, which are pulled to 1, so
that a GPU under a framework that nobody measured together has numbers, too:
  share of the peak, by type of op:  dtype x (GPU and dtype) x (framework and dtype)
  flops at half of it:               dtype x framework
  share of the bandwidth:            one x GPU x framework
  launch of a kernel, host time of an op, of a pass:  one x framework
"""
import math
import re

import numpy as np
from scipy.optimize import minimize

from board import Comparison, InputError, percent
from examples import inference_rows, step_question, training_rows

SHARES = ("", "Conv2d", "GroupedConv2d")
PULL = 0.3  # moving a deviation by a factor of e must explain 0.3 of one row's logarithm
STARTS = {"share": 0.6, "share Conv2d": 0.5, "share GroupedConv2d": 0.15, "half": 5e7, "bandwidth": 0.75, "launch": 2e-6,
          "host_op": 4e-5, "host_step": 2e-3}
FITTED = {"v100_32gb": "v100", "a100_40gb": "a100"}  # GPUs that share another's numbers


def sheets(text):
    """{device type: (peak of each dtype in flop/s, bytes/s)} of devices.yaml."""
    found = {}
    for block in re.split(r"\n  (?=\w+:\n)", text):
        peaks, bandwidth = re.search(r"peak: \{([^}]*)\}", block), re.search(r"bandwidth: ([\d.]+) GB/s", block)
        if peaks and bandwidth:
            found[block.split(":")[0]] = ({d: 1e12 * float(t) for d, t in re.findall(r"(\w+): ([\d.]+) TFLOP/s", peaks[1])},
                                          1e9 * float(bandwidth[1]))
    return found


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
        self.peak, self.bandwidth = sheet
        self.formats = {d for run in self.runs for d, flops in zip(run[3], run[5]) if flops > 0}
        missing = self.formats - set(self.peak)
        if missing:
            raise InputError(f"{row.text()}: {row.device()} has no peak in {', '.join(sorted(missing))}")

    def names(self, what, dtype=None):
        if what == "half":
            return [f"half:{dtype}", f"half@{self.framework}"]
        if dtype:
            return [f"{what}:{dtype}", f"{what}:{dtype}@{self.gpu}", f"{what}:{dtype}@{self.framework}"]
        return [what] + ([f"{what}@{self.gpu}"] if what == "bandwidth" else []) + [f"{what}@{self.framework}"]


class Numbers:
    def __init__(self, cases):
        self.cases, names, self.parts = cases, {}, []
        for case in cases:
            def of(what, dtype=None, case=case):
                return np.array([names.setdefault(name, len(names)) for name in case.names(what, dtype)])
            kinds = [f"share {kind}".strip() for kind in SHARES]
            rates, runs = {}, []
            for times, ops, op, dtype, share, flops, traffic in case.runs:
                index = [rates.setdefault((kinds[s], d), len(rates)) for s, d in zip(share, dtype)]
                runs.append((times, ops, op, np.array(index), flops, traffic))
            self.parts.append(([(of(kind, d), of("half", d), case.peak.get(d, math.inf)) for kind, d in rates],
                               [of(what) for what in ("bandwidth", "launch", "host_op", "host_step")], runs))
        self.names = list(names)
        self.start = np.array([0.0 if "@" in name else math.log(STARTS[name.split(":")[0]]) for name in self.names])
        self.deviation = np.array(["@" in name for name in self.names])
        self.rows = [[i for i, part in enumerate(self.parts) if any(n in ids for ids in self._used(part))]
                     for n in range(len(self.names))]
        self.x = self.start.copy()

    @staticmethod
    def _used(part):
        return [ids for rate in part[0] for ids in rate[:2]] + part[1]

    def seconds(self, i, x):
        """By the engine's recurrence: the host launches op after op, and an op begins when it is launched and the op
        before it has ended."""
        rates, others, runs = self.parts[i]
        rate = np.array([peak * min(1.0, math.exp(x[share].sum())) for share, _, peak in rates])
        half = np.array([math.exp(x[ids].sum()) for _, ids, _ in rates])
        bandwidth, launch, host_op, host_step = (math.exp(x[ids].sum()) for ids in others)
        bandwidth, total = self.cases[i].bandwidth * min(1.0, bandwidth), 0.0
        for times, ops, op, index, flops, traffic in runs:
            arithmetic = np.where(flops > 0.0, (flops + half[index]) / rate[index], 0.0)
            kernels = launch + np.maximum(arithmetic, traffic / bandwidth)
            taken = np.bincount(op, kernels, ops)
            before = np.concatenate(([0.0], np.cumsum(taken)))
            launched = host_step + host_op * np.arange(1, ops + 1)
            total += times * (before[-1] + max(0.0, (launched - before[:-1]).max()))
        return total

    def losses(self, x, rows):
        return np.array([abs(math.log(self.seconds(i, x) / self.cases[i].measured)) for i in rows])

    def fit(self, use, rounds=6):
        """Each number in turn by Brent's method over the rows that it moves, until the sum of losses falls no more."""
        self.x, use = self.start.copy(), set(use)
        last = math.inf
        for _ in range(rounds):
            for n in range(len(self.x)):
                rows = [i for i in self.rows[n] if i in use]
                if not rows:
                    continue

                def loss(value, n=n, rows=rows):
                    x = self.x.copy()
                    x[n] = value[0]
                    return self.losses(x, rows).sum() + PULL * self.deviation[n] * abs(value[0])

                best = minimize(loss, [self.x[n]], method="Powell", bounds=[(self.start[n] - 4, self.start[n] + 4)],
                                options={"xtol": 1e-3, "ftol": 1e-5, "maxfev": 30})
                if best.fun < loss([self.x[n]]):
                    self.x[n] = float(best.x[0])
            total = self.losses(self.x, sorted(use)).sum() + PULL * np.abs(self.x[self.deviation]).sum()
            if last - total < 1e-3 * total:
                break
            last = total
        return self

    def error(self, i):
        return abs(self.seconds(i, self.x) / self.cases[i].measured - 1.0)

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
        half = ", ".join(f"{d}: {self.value(case.names('half', of(d))) / 1e6:.3g} MFLOP" for d in formats)
        us = ", ".join(f"{what}: {1e6 * self.value(case.names(what)):.3g} us" for what in ("launch", "host_op", "host_step"))
        return (f"  {case.row.device()}:\n    {{efficiency: {{{shares}}},\n     half: {{{half}}},\n     bandwidth_efficiency: "
                f"{min(1.0, self.value(case.names('bandwidth'))):.3g}, no_kernel: 0 us, {us}}}\n")


def cases_of(data, program, devices_yaml):
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
    known = sheets(devices_yaml)
    return [Case(row, [(times, answers[i]["ops"]) for times, i in part], known[row.device()])
            for row, part in zip(rows, parts)]


def cross_validate(numbers, fold_of):
    """(row, seconds by the others) where a fold is left out at a time; `fold_of` a row, None: it is always fitted to."""
    folds = {}
    for i, case in enumerate(numbers.cases):
        if fold_of(case.row) is not None:
            folds.setdefault(fold_of(case.row), []).append(i)
    predicted = []
    for members in folds.values():
        numbers.fit(set(range(len(numbers.cases))) - set(members), 2)
        predicted += [(numbers.cases[i].row, numbers.seconds(i, numbers.x)) for i in members]
    return predicted


def fit(data, program, devices_yaml):
    """The device types, and the lines of validate/published/left_out_examples.csv."""
    cases = cases_of(data, program, devices_yaml)
    numbers, text, left_out = Numbers(cases), "", ["row,ms"]
    for what, fold_of in (
            ("inference, a framework, network and GPU left out at a time",
             lambda row: (row.base(), row.model, row.machine) if not row.training else None),
            ("training, a framework, model and machine left out at a time",
             lambda row: (row.framework, row.model, row.machine) if row.training else None)):
        predicted = cross_validate(numbers, fold_of)
        errors = [abs(seconds / row.seconds() - 1.0) for row, seconds in predicted]
        text += f"# {what}: {percent(sum(errors) / len(errors))} of {len(errors)} rows\n"
        left_out += [f'"{row.text()}",{1e3 * seconds:.5g}' for row, seconds in predicted]
    numbers.fit(range(len(cases)))
    errors = [numbers.error(i) for i in range(len(cases))]
    text = f"# {len(numbers.names)} numbers, {len(cases)} steps: mean error {percent(sum(errors) / len(errors))}\n" + text
    return text + "".join(numbers.yaml(case) for case in {c.row.device(): c for c in cases}.values()), left_out
