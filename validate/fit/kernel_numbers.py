"""The numbers of measured kernels: GEMMs by dtype, fused attention by size of head, memory-bound kernels by type.

The model is the program's (sim/cluster/measured_kernels.cpp) on arrays; a test holds the two equal.
"""
import json
import math
import os
import re
import zlib

import numpy as np
from scipy.optimize import minimize

from board import Comparison, InputError, facts
from kernels import measured_attention, measured_gemms, measured_passes

FOLDS = 5
TILES = [(64, 32), (128, 32), (64, 64), (128, 64), (64, 128), (128, 128), (64, 256), (256, 64), (128, 256), (256, 128),
         (256, 256)]
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
# Numbers with the limits that the program accepts, and where a fit begins. Of times, in us, whole nanoseconds are kept.
GEMM = {"efficiency": (0.01, 1.0, 0.8), "bandwidth": (0.01, 1.0, 0.8), "overlap": (0.5, 20.0, 3.0),
        "streaming": (1e-3, 1.0, 0.5), "launch": (1e-3, 1e3, 2.2), "tile": (1e-3, 1e3, 0.5),
        "tile_area": (1e-3, 1e3, 0.3), "split": (1e-3, 1e3, 2.9), "step": (1e-3, 1e3, 0.085),
        "split_bandwidth": (1e-3, 1e6, 1.3), "quantise": (1e-3, 100.0, 0.0), "cache": (1e-3, 1e9, 0.0),
        "cached": (1.0, 100.0, 1.0)}
ATTENTION = {"efficiency": (0.01, 1.0, 0.7), "exponential": (1e-3, 1e3, 0.3), "tile": (1e-3, 1e3, 1.0),
             "launch": (1e-3, 1e3, 10.0), "uneven": (0.5, 20.0, 1.5), "traffic": (1e-3, 100.0, 3.0),
             "cache": (1e-3, 1e9, 0.0), "cached": (1.0, 100.0, 1.0)}
TIMES = {"launch", "tile", "tile_area", "split", "step", "exponential", "settled"}
BRIEF, SETTLED = 2e3, 1e4  # us: below the limit of power; at it


def device_sheets(folder):
    """{device type: {peak: {dtype: flops per us}, bytes: per us, processors, cycles: of all processors, per us, l2: bytes}}."""
    caches = {row["device"]: 1e6 * float(row["mb"] or 50) for row in facts("l2_caches.csv")}
    with open(os.path.join(folder, "scenarios/devices.yaml"), encoding="utf-8") as file:
        blocks = re.split(r"\n  (?=\w+:[ \n])", file.read())
    sheets = {}
    for block in blocks:
        peaks, bandwidth = re.search(r"peak: \{([^}]*)\}", block), re.search(r"bandwidth: ([\d.]+) GB/s", block)
        if peaks and bandwidth:
            peak = {dtype: 1e6 * float(t) for dtype, t in re.findall(r"(\w+): ([\d.]+) TFLOP/s", peaks[1])}
            capability = re.search(r"compute_capability: ([\d.]+)", block)
            lanes = 64.0 if capability and float(capability[1]) <= 8.0 else 128.0  # FP32, of a processor
            sheets[block.split(":")[0]] = {
                "peak": peak, "bytes": 1e3 * float(bandwidth[1]), "cycles": peak.get("fp32", 0.0) / (2.0 * lanes),
                "l2": caches.get(block.split(":")[0], 5e7),
                "processors": float((re.search(r"processors: (\d+)", block) or [0, 0])[1])}
    return sheets


class Rows:
    """Kernels as arrays."""

    def __init__(self, kernels, sheets):
        self.kernels = kernels
        self.us = np.array([k.us for k in kernels])
        self.traffic = np.array([k.work[1] for k in kernels], float)
        self.flops = np.array([sheets[k.device]["peak"].get(k.work[2], math.nan) for k in kernels])
        self.bytes = np.array([sheets[k.device]["bytes"] for k in kernels])
        self.processors = np.array([sheets[k.device]["processors"] for k in kernels])
        if len(kernels[0].work) > 3:
            self.count, self.m, self.n, self.k = np.array([k.work[4:] for k in kernels], float).T

    def where(self, keep):
        rows = object.__new__(Rows)
        rows.kernels = [k for k, kept in zip(self.kernels, keep) if kept]
        rows.__dict__.update({name: a[keep] for name, a in self.__dict__.items() if isinstance(a, np.ndarray)})
        return rows


def together(a, b, overlap):
    high, low = np.maximum(a, b), np.minimum(a, b)
    return high * (1.0 + (low / high) ** overlap) ** (1.0 / overlap)


def moved(x, traffic, per_us):
    in_cache = np.minimum(traffic, x["cache"])
    return (traffic - in_cache + in_cache / x["cached"]) / per_us


def gemm_us(x, r):
    """Microseconds, with the fastest of the tiles and splits."""
    steps, fastest = np.ceil(r.k / 64.0), np.full(r.us.shape, np.inf)
    parts_us = r.count * r.m * r.n * 4.0 / (r.bytes * x["split_bandwidth"])
    for rows, columns in TILES:
        number = r.count * np.ceil(r.m / rows) * np.ceil(r.n / columns)
        step = np.maximum(rows * columns * 128.0 * r.processors / (r.flops * x["efficiency"]), x["step"])
        beside = x["tile"] + x["tile_area"] * (rows * columns / 128.0**2)
        for parts in SPLITS:
            waves = number * parts / r.processors
            waves = np.where(waves > 1.0, (1.0 - x["streaming"]) * np.ceil(waves) + x["streaming"] * waves, 1.0)
            us = waves * (np.ceil(steps / parts) * step + beside)
            if parts > 1:
                us = np.where(r.k < 128.0 * parts, np.inf, us + x["split"] + parts * parts_us)
            fastest = np.minimum(fastest, us)
    settled = x.get("settled", 0.0)
    limited = np.minimum(1.0, fastest / settled) if settled else 1.0
    fastest = fastest * (1.0 + limited * (1.0 / x.get("sustained", 1.0) - 1.0))
    memory = moved(x, r.traffic, r.bytes * x["bandwidth"])
    return x["launch"] + together(fastest, memory, x["overlap"]) + x["quantise"] * r.count * r.m * r.k / r.bytes


def attention_us(x, r):
    """Microseconds of causal attention: m queries on k keys, heads of n."""
    rows, keys = np.ceil(r.m / 16.0) * 16.0, np.ceil(r.k / 16.0) * 16.0
    pairs = np.where(rows > 128.0, keys * (rows + 128.0) / 2.0, rows * keys)
    pair = 4.0 * r.n * r.processors / (r.flops * x["efficiency"]) + x["exponential"] / 128.0**2
    everything = r.count / 2.0 * (pairs * pair + np.ceil(rows / 128.0) * x["tile"])
    longest = np.minimum(rows, 128.0) * keys * pair + x["tile"]
    return (x["launch"] + together(everything / r.processors, longest, x["uneven"])
            + x["traffic"] * moved(x, r.traffic, r.bytes))


def minimise(model, limits, start, rows, evaluations):
    """The least mean of |log(simulated / measured)|, plus |log(number / start)| of each number over the rows: few rows
    move the numbers little. A number that starts at 0 stays 0."""
    free = [name for name in start if start[name] > 0.0 and (name != "cached" or start["cache"] > 0.0)]
    begin = np.log([start[name] for name in free])

    def at(logs):
        return {**start, **{name: min(max(math.exp(v), limits[name][0]), limits[name][1]) for name, v in zip(free, logs)}}

    def loss(logs):
        return np.abs(np.log(model(at(logs), rows) / rows.us)).mean() + np.abs(logs - begin).sum() / len(rows.us)

    bounds = [(v - 4.0, v + 4.0) for v in begin]
    best = minimize(loss, begin, method="Powell", bounds=bounds,
                    options={"maxfev": evaluations, "xtol": 0.01, "ftol": 1e-4}).x
    return {name: round(value, 3) if name in TIMES else float(f"{value:.3g}") for name, value in at(best).items()}


def fit_gemm(rows, start, evaluations=700):
    """GEMMs below 2 ms; then what those of 10 ms and more keep of that rate, in the median, if there are five."""
    numbers = minimise(gemm_us, GEMM, start, rows.where(rows.us < BRIEF), evaluations)
    long = rows.where(rows.us >= SETTLED)
    if len(long.us) >= 5:
        left = float(np.sort(gemm_us(numbers, long) / long.us)[len(long.us) // 2])
        if left < 1.0:
            numbers.update(sustained=float(f"{left:.3g}"), settled=SETTLED)
    return numbers


def fit_attention(rows, start, evaluations=700):
    return minimise(attention_us, ATTENTION, start, rows, evaluations)


def first_numbers(limits, group, cache):
    """Where a fit begins. `cache`: GPUs with slow memory have large caches, where a benchmark finds its data."""
    start = {name: first for name, (_, _, first) in limits.items()}
    if limits is GEMM and group != "bf16":
        start.update(launch=12.0, quantise=8.0)
    if cache:
        start.update(cache=2e7, cached=2.0) if limits is GEMM else start.update(cache=5e7, cached=4.0)
    return start


def error(model, numbers, rows):
    return float(np.abs(model(numbers, rows) / rows.us - 1.0).mean())


def numbers_of(x):
    """As a question and devices.yaml have them."""
    words = {}
    for name, value in x.items():
        if value and not (name == "cached" and not x["cache"]):
            words[name] = f"{1e3 * value:.0f} ns" if name in TIMES else f"{value / 1e6:.3g} MB" if name == "cache" else value
    return words


def yaml(x):
    return "{" + ", ".join(f"{name}: {value}" for name, value in numbers_of(x).items()) + "}"


class Family:
    """One type of kernel, on all devices: {(device, group): rows}."""

    def __init__(self, model, limits, fit, kernels, sheets):
        self.model, self.limits, self.fit, self.sheets = model, limits, fit, sheets
        groups = {}
        for kernel in kernels:
            groups.setdefault((kernel.device, kernel.group), []).append(kernel)
        self.rows = {key: Rows(members, sheets) for key, members in sorted(groups.items())}
        self.large_cache = {device for device, _ in groups if sheets[device]["bytes"] < 1.7e6}

    def rule(self, group, without="", every=7):
        """Numbers for a device that nobody measured: of every seventh row of the others without large caches."""
        rows = [r.where(np.arange(len(r.us)) % every == 0) for (device, g), r in self.rows.items()
                if g == group and device not in self.large_cache | {without}]
        if not rows:
            return None
        return self.fit(Rows([k for r in rows for k in r.kernels], self.sheets), first_numbers(self.limits, group, False))

    def own(self, device, group):
        """The numbers of all rows, and the mean error of rows left out, a fifth at a time by their keys."""
        rows, cache = self.rows[device, group], device in self.large_cache
        start = first_numbers(self.limits, group, cache) if cache else self.rule(group)
        fold = np.array([zlib.crc32(k.key.encode()) % FOLDS for k in rows.kernels])
        left = sum(error(self.model, self.fit(rows.where(fold != f), start), rows.where(fold == f)) * (fold == f).sum()
                   for f in range(FOLDS) if (fold == f).any())
        return self.fit(rows, start), left / len(rows.us)


def families(data, sheets):
    comparison = Comparison()
    gemms, attention = measured_gemms(data, comparison), measured_attention(data, comparison)
    if not gemms or not attention:
        raise InputError(f"{data.folder}: no measured/aiconfigurator/gemm.csv, attention_forward.csv")
    return {"products": Family(gemm_us, GEMM, fit_gemm, gemms, sheets),
            "attention": Family(attention_us, ATTENTION, fit_attention, attention, sheets)}


def left_out(data, folder):
    """For validate/published/left_out_kernels.csv: the numbers of each device by the others'."""
    yield "kernels,device,group,numbers"
    for name, family in families(data, device_sheets(folder)).items():
        rules = {}
        for device, group in family.rows:
            without = "" if device in family.large_cache else device
            if (group, without) not in rules:
                rules[group, without] = family.rule(group, without, 21)
            if rules[group, without]:
                numbers = json.dumps(numbers_of(rules[group, without])).replace('"', '""')
                yield f'{name},{device},{group},"{numbers}"'
    kernels, sheets = measured_passes(data, Comparison()), device_sheets(folder)
    for device in sorted({k.device for k in kernels}):
        numbers = json.dumps(passes_numbers(of_any_gpu(fit_any_gpu([k for k in kernels if k.device != device], sheets), sheets[device])))
        yield f"passes,{device},,\"{numbers.replace(chr(34), 2 * chr(34))}\""


# Of memory-bound kernels, and where searches start: launch in us, part of the bandwidth, bytes that the cache serves, how
# many times as fast.
PASSES_LIMITS = np.log([(0.3, 20.0), (0.2, 1.0), (1e6, 1e8), (1.0, 4.0)])
PASSES_STARTS = np.log([(3.0, 0.8, 2e7, 1.2), (2.0, 0.6, 4e7, 1.2)])


def passes_us(x, moved, per_us):
    """As in MemoryBoundNumbers (sim/cluster/device_model.h)."""
    launch, share, cache, faster = np.exp(x)
    hit = np.clip(2.0 - moved / cache, 0.0, 1.0)
    return launch + moved / per_us * (hit / faster + 1.0 - hit) / share


def fit_passes(kernels, sheet, near=None):
    """{type of op: logarithms of PASSES_LIMITS' numbers} that minimise the mean of |log(simulated / measured)|. `near`: numbers to
    start from instead."""
    fitted = {}
    for group in sorted({k.group for k in kernels}):
        moved, us = (np.array([value(k) for k in kernels if k.group == group], float)
                     for value in (lambda k: k.work[1], lambda k: k.us))

        def loss(x):
            return np.abs(np.log(passes_us(x, moved, sheet["bytes"]) / us)).sum()

        rough = [minimize(loss, x, method="Powell", bounds=PASSES_LIMITS).x for x in ([near[group]] if near else PASSES_STARTS)]
        found = [minimize(loss, x, method="Nelder-Mead", bounds=PASSES_LIMITS) for x in rough]
        fitted[group] = min(found, key=lambda result: result.fun).x
    return fitted


# Of memory-bound kernels of any GPU: for each type of op a launch in us, bytes per processor and cycle, and how many times as
# many from the cache; for all, a part of the bandwidth, the part of the L2 that serves them, and its bytes per processor and cycle.
ANY_GPU = ([(0.3, 20.0), (1.0, 60.0), (0.7, 2.0)], [(0.5, 1.0), (0.1, 1.5), (2.0, 60.0)])


def of_any_gpu(found, sheet):
    """{type of op: logarithms of PASSES_LIMITS' numbers}: memory or cache decides, or the processors."""
    share, part, cached = found[""]

    def numbers(launch, rate, faster):
        memory = min(share, rate * sheet["cycles"] / sheet["bytes"])
        return np.log([launch, memory, part * sheet["l2"], min(cached, rate * faster) * sheet["cycles"] / sheet["bytes"] / memory])
    return {group: numbers(*own) for group, own in found.items() if group}


def fit_any_gpu(kernels, sheets):
    """{type of op: its numbers, "": what all share}, of every fifth kernel; each type and GPU weighs the same. First without
    more from the cache."""
    rows = {}
    for k in kernels:
        rows.setdefault((k.device, k.group), []).append((k.work[1], k.us))
    rows = {key: np.array(values[::5], float).T for key, values in rows.items()}
    groups = sorted({group for _, group in rows})

    def named(x):
        return dict(zip(groups, np.exp(x[:-3]).reshape(-1, 3))) | {"": np.exp(x[-3:])}

    def loss(x):
        numbers = {device: of_any_gpu(named(x), sheets[device]) for device, _ in rows}
        return sum(np.abs(np.log(passes_us(numbers[device][group], moved, sheets[device]["bytes"]) / us)).mean()
                   for (device, group), (moved, us) in rows.items())

    def least(loss, starts, of_group):
        limits = np.log(of_group * len(groups) + ANY_GPU[1])
        found = [minimize(loss, x, method="Powell", bounds=limits, options={"maxfev": 6000}) for x in starts]
        return min(found, key=lambda result: result.fun).x

    def with_cache(x, faster):
        return np.insert(x, range(2, 2 * len(groups) + 1, 2), math.log(faster))

    starts = [np.log([2.5, rate] * len(groups) + [0.85, 0.7, 16.0]) for rate in (5.0, 7.0, 9.0, 12.0)]
    plain = least(lambda x: loss(with_cache(x, 1.0)), starts, ANY_GPU[0][:2])
    return named(least(loss, [with_cache(plain, faster) for faster in (1.0, 1.2)], ANY_GPU[0]))


def passes_numbers(fitted):
    """As a question has them."""
    return {"passes": {group: {"launch": f"{1e3 * x[0]:.0f} ns", "bandwidth_efficiency": round(x[1], 2),
                               "cache": f"{x[2] / 1e6:.3g} MB", "cached": round(x[1] * x[3], 2)}
                       for group, x in ((g, np.exp(v)) for g, v in fitted.items())}}


def passes_error(kernels, sheet, fitted):
    return sum(abs(passes_us(fitted[k.group], float(k.work[1]), sheet["bytes"]) / k.us - 1.0) for k in kernels
               if k.group in fitted)


def fit(data, folder):
    sheets = device_sheets(folder)
    text = "# Errors are means over rows left out, a fifth at a time, by n x k or by heads.\n"
    for name, family in families(data, sheets).items():
        for group in sorted({group for _, group in family.rows}):
            rule = family.rule(group)
            text += f"# of any other GPU, {name} {group}\n" + (f"  {yaml(rule)}\n" if rule else "")
        for device, group in family.rows:
            numbers, left = family.own(device, group)
            text += f"# {device}: {len(family.rows[device, group].us)} rows, error {100.0 * left:.1f} %\n"
            text += f"  {name}: {{{group}: {yaml(numbers)}}}\n"
    kernels = measured_passes(data, Comparison())
    for device in sorted({k.device for k in kernels}):
        own, left = [k for k in kernels if k.device == device], 0.0
        fitted = fit_passes(own, sheets[device])
        for model in sorted({k.key for k in own}):
            others = [k for k in own if k.key != model]
            without = fit_passes(others, sheets[device], fitted) if others else {}
            left += passes_error([k for k in own if k.key == model], sheets[device], fitted | without)
        text += f"# {device}: {len(own)} memory-bound kernels, error of a model left out {100.0 * left / len(own):.1f} %\n"
        text += f"  {json.dumps(passes_numbers(fitted)).replace(chr(34), '')[1:-1]}\n"
    found = fit_any_gpu(kernels, sheets)
    for device in sorted({row["device"] for row in facts("l2_caches.csv")} - {k.device for k in kernels}):
        text += f"# {device}: memory-bound kernels by those of the GPUs above\n"
        text += f"  {json.dumps(passes_numbers(of_any_gpu(found, sheets[device]))).replace(chr(34), '')[1:-1]}\n"
    return text
