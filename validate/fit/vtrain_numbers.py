"""What A100s reach in training GPTs, between nodes, and in all-reduces, by vTrain's measurements."""
import json
import math

import numpy as np
from scipy.optimize import minimize

from board import Comparison, InputError, percent
from collectives import features_of, vtrain_all_reduces
from vtrain import (STAMPS_OF_HEAD, STAMPS_OF_LAYER, SMALL_KERNELS_OF_HEAD, least_relative_deviations, ms_of, pieces_of,
                    steps_of)

SINGLE, SEVERAL = "vtrain/measured_single_node.csv", "vtrain/measured_multi_node.csv"


def all_reduce_rows(data, gpu, ranks):
    rows = vtrain_all_reduces(data, gpu, Comparison(), ranks)
    if not rows:
        raise InputError(f"{data.folder}: no vtrain/allreduce/{gpu}_gpu*.csv")
    return rows


def fit_collectives(data, rings):
    """Through a switch us = a0 + a1 2 (n - 1) + moved (b0 + b1 / n); through a DGX-1's wires a0 + a1 2 (n - 1) + moved /
    (rings x wire). `rings`: of n V100."""
    a = least_relative_deviations([(features_of(m), m.us) for m in all_reduce_rows(data, "a100", (2, 4, 8))], 4)
    v = least_relative_deviations([({0: 1.0, 1: 2.0 * (m.ranks - 1), 2: m.moved() / rings[m.ranks]}, m.us)
                                   for m in all_reduce_rows(data, "v100", (2, 8))], 3)
    return (f"collectives:\n  a100_nvlink: {{model: line, latency: {a[0]:.2f} us, step_latency: {a[1]:.3f} us, bandwidth: "
            f"{1e-3 / a[2]:.1f} GB/s, loss: {a[3] / a[2]:.4f}}}\n  dgx1_v100: {{model: line, latency: {v[0]:.2f} us, "
            f"step_latency: {v[1]:.3f} us, wire: {1e-3 / v[2]:.2f} GB/s}}\n")


def errors_of(program, steps, questions):
    """Of the steps on several nodes."""
    answers = program.ask(questions)
    for answer in answers:
        if "error" in answer:
            raise InputError(answer["error"])
    return [a["step_time_us"] / 1e3 / step.ms - 1.0 for step, a in zip(steps, answers)]


def several_nodes(data):
    steps = steps_of(data, SEVERAL, Comparison())
    if not steps:
        raise InputError(f"{data.folder}: no {SEVERAL}")
    return steps


def fit_network(data, program):
    """Shares of the line rate, and NICs that groups of ranks with several on a node reach; 0: all."""
    steps, tries = several_nodes(data), [(e, n) for e in (0.7, 0.8, 0.9, 1.0) for n in (0.0, 0.6, 0.8, 0.9, 1.0, 1.2, 2.0)]
    errors = {}
    for e, n in tries:
        others = {"network_efficiency": e, "collectives": {"model": "hierarchical", "nics_per_group": n,
                                                           "inside": {"kind": "a100_nvlink"}}}
        questions = [step.question() for step in steps]
        for question in questions:
            question["nodes"].update(others)
        errors[e, n] = [abs(error) for error in errors_of(program, steps, questions)]

    def best(rows):
        return min(tries, key=lambda t: sum(errors[t][i] for i in rows))

    left, every = 0.0, range(len(steps))
    for model in {(s.hidden, s.layers) for s in steps}:
        own = [i for i in every if (steps[i].hidden, steps[i].layers) == model]
        left += sum(errors[best([i for i in every if i not in own])][i] for i in own)
    e, n = best(every)

    def mean(t):
        return percent(sum(errors[t]) / len(steps))
    return (f"nodes:\n  dgx_a100: {{network_efficiency: {e}, collectives: {{nics_per_group: {n}}}}}\n# error {mean((e, n))} of "
            f"{len(steps)} steps; at the line rate {mean((1.0, 0.0))}; a model left out {percent(left / len(steps))}\n")


# The six numbers of a100_megatron, with the limits of the program and where the fit begins.
MEGATRON = {"efficiency": (1.0, 0.82), "half": (1e12, 9.9e9), "bandwidth_efficiency": (0.95, 0.754), "traffic": (1e9, 474e3),
            "host_op": (1e6, 16400.0), "unaligned": (1.0, 0.323)}
START = np.log([first for _, first in MEGATRON.values()])
PARTS = (3.0 / 8.0, 1.0 / 8.0, 1.0 / 2.0)  # of the errors of layers, heads and steps in a fit


def megatron_device(x):
    n = dict(zip(MEGATRON, (min(math.exp(v), most) for v, (most, _) in zip(x, MEGATRON.values()))))
    half = f"{n['half'] / 1e9:.4g} GFLOP"
    return {"base": "a100_megatron", "efficiency": {"default": round(n["efficiency"], 4)},
            "half": {"fp16": half, "bf16": half, "traffic": f"{n['traffic'] / 1e3:.0f} kB"},
            "bandwidth_efficiency": round(n["bandwidth_efficiency"], 4), "unaligned": round(n["unaligned"], 4),
            "host_op": f"{n['host_op']:.0f} ns"}


class Megatron:
    """Pieces on one node, and steps on several: as much together, a layer three times a head, because a step has many."""

    def __init__(self, data, program):
        self.program, self.steps, groups, self.pieces = program, several_nodes(data), {}, []
        for s in steps_of(data, SINGLE, Comparison()):
            s.vocabulary, s.recompute, s.loss = 50257 // s.tensor * s.tensor, "off", "fused"
            groups.setdefault((s.tensor, s.hidden), []).append(s)
        for key in sorted(groups):
            self.pieces += pieces_of(groups[key], Comparison()).values()

    def errors(self, x):
        pieces, steps, device = self.pieces, self.steps, megatron_device(x)
        answers = self.program.ask([s.question(pieces="true", **{"as": device}) for _, _, s, _ in pieces])
        layers, heads = [], []
        for (a, b, _, _), answer in zip(pieces, answers):
            host = round(answer["host_op_us"] * 1e3)
            layers.append(ms_of(answer["layers"], host, 0, STAMPS_OF_LAYER) / a - 1.0)
            heads.append(ms_of(answer["ends"], host, SMALL_KERNELS_OF_HEAD, STAMPS_OF_HEAD) / b - 1.0)
        return layers, heads, errors_of(self.program, steps, [s.question(**{"as": device}) for s in steps])

    def lines(self, x, step=0.05):
        """The logarithms of simulated / measured at x, and their slopes."""
        base = np.log1p(np.concatenate(self.errors(x)))
        return base, np.array([np.log1p(np.concatenate(self.errors(x + step * own))) - base for own in np.eye(len(x))]) / step

    def move(self, base, slopes, keep):
        """From x to the least errors of the rows to keep by these lines: to move a number by a factor of e must explain 0.3 of
        one row's logarithm."""
        counts = [len(self.pieces), len(self.pieces), len(self.steps)]
        weights = np.repeat(np.divide(PARTS, counts), counts)[keep]

        def loss(d):
            return weights @ np.abs(base[keep] + d @ slopes[:, keep]) + 0.3 / len(base) * np.abs(d).sum()
        return minimize(loss, np.zeros(len(slopes)), method="Powell", bounds=[(-0.7, 0.7)] * len(slopes)).x


def left_out(data, program):
    """For validate/published/left_out_vtrain.csv: the numbers without the rows of a hidden size, by the lines around those
    of all rows."""
    fit = Megatron(data, program)
    base, slopes = fit.lines(START)
    hidden = np.array([s.hidden for _, _, s, _ in fit.pieces] * 2 + [s.hidden for s in fit.steps])
    yield "hidden,device"
    for size in sorted(set(hidden)):
        device = megatron_device(START + fit.move(base, slopes, hidden != size))
        yield f'{size},"{json.dumps(device).replace(chr(34), 2 * chr(34))}"'


def fit_megatron(data, program, rounds=3):
    fit, x = Megatron(data, program), START
    for _ in range(rounds):
        base, slopes = fit.lines(x)
        x = x + fit.move(base, slopes, np.full(len(base), True))
    text = f"devices:\n  a100_megatron: {megatron_device(x)}\n# layers, heads, steps on several nodes: "
    return text + ", ".join(percent(np.abs(e).mean()) for e in fit.errors(x)) + "\n"
