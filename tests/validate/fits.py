"""What the fits recover. usage: fits.py BAECHI; needs scipy."""
import math
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "validate/fit"), os.path.join(ROOT, "validate/published")]

import numpy as np  # noqa: E402

import board  # noqa: E402
import collective_tables as tables  # noqa: E402
import device_numbers as devices  # noqa: E402
import kernel_numbers as fit  # noqa: E402
from examples import Example  # noqa: E402
from kernels import Kernel  # noqa: E402
from vtrain import least_relative_deviations  # noqa: E402

program = board.Program(sys.argv[1])
SHEET = fit.device_sheets(ROOT)["h100"]


def gemms(sizes):
    return [Kernel("h100", "bf16", "", f"{n} x {k}", [2 * m * n * k, 2 * (m * k + k * n + m * n), "bf16", "product", 1, m, n, k],
                   1.0, "") for m in sizes[0] for n in sizes[1] for k in sizes[2]]


def times(kernels, kind, group, numbers):
    answer, = program.ask([{"ask": "kernels", "device": {"base": "h100", kind: {group: numbers}},
                            "kernels": [["", *k.work] for k in kernels]}])
    return np.array(answer["times_us"])


# The arrays' model is the program's, whose times are whole nanoseconds; also of a GEMM at the limit of power.
kernels = gemms(((16, 100, 8192), (64, 4096, 14336), (128, 8192, 65536)))
x = {**fit.first_numbers(fit.GEMM, "fp8", True), "sustained": 0.9, "settled": 1e4}
assert np.abs(times(kernels, "products", "default", fit.numbers_of(x)) - fit.gemm_us(x, fit.Rows(kernels, {"h100": SHEET}))).max() < 2e-3
attention = [Kernel("h100", "128", "", "", [4 * b * h * s * s * 128, 8 * b * s * h * 128, "bf16", "causal_attention",
                                            2 * b * h, s, 128, s], 1.0, "") for b in (1, 8) for h in (4, 32) for s in (60, 1000, 8192)]
x = fit.first_numbers(fit.ATTENTION, "128", True)
assert np.abs(times(attention, "attention", "128", fit.numbers_of(x)) - fit.attention_us(x, fit.Rows(attention, {"h100": SHEET}))).max() < 2e-3

# A made-up device is recovered from its GEMMs.
truth = {**fit.first_numbers(fit.GEMM, "bf16", False), "efficiency": 0.6, "launch": 4.0, "bandwidth": 0.5}
rows = fit.Rows(gemms(((16, 128, 1024, 8192), (64, 512, 4096), (128, 1024, 8192))), {"h100": SHEET})
rows.us = fit.gemm_us(truth, rows)
found = fit.fit_gemm(rows, fit.first_numbers(fit.GEMM, "bf16", False))
assert abs(found["efficiency"] / 0.6 - 1.0) < 0.05 and fit.error(fit.gemm_us, found, rows) < 0.02, found
# One row moves no number: |log(number / start)| costs as much as the row's error.
one = rows.where(np.arange(len(rows.us)) == 30)
assert fit.fit_gemm(one, truth)["tile"] == truth["tile"]

# Memory-bound kernels of a GPU that nobody measured: memory, L2 or processors decide, as on two made-up others. To 3 %.
sheets, shared = fit.device_sheets(ROOT), (0.8, 0.7, 12.0)
truth = {"Add": (2.0, 20.0, 1.0), "RMSNorm": (3.0, 7.0, 1.5), "": shared}
passes = [Kernel(device, group, "", "", [0, moved, "fp16"], float(fit.passes_us(x, moved, sheets[device]["bytes"])), "")
          for device in ("a100", "a40") for group, x in fit.of_any_gpu(truth, sheets[device]).items()
          for moved in np.geomspace(1e5, 1e9, 200)]
found = fit.of_any_gpu(fit.fit_any_gpu(passes, sheets), sheets["rtx_4090"])
for group, x in fit.of_any_gpu(truth, sheets["rtx_4090"]).items():
    us = [fit.passes_us(numbers, np.geomspace(1e5, 1e9, 50), sheets["rtx_4090"]["bytes"]) for numbers in (x, found[group])]
    assert np.abs(us[1] / us[0] - 1.0).max() < 0.03, (group, np.exp(x), np.exp(found[group]))
# 84 processors of 128 lanes at 37.4 TFLOP/s are 1.74 GHz; an RMSNorm moves 7 x 146e3 B/us, more than 0.8 of the memory's, and
# 1.5 times as many from the cache.
assert np.allclose(np.exp(fit.of_any_gpu(truth, sheets["a40"])["RMSNorm"]), [3.0, 0.8, 4.2e6, 10.5 * 37.4e6 / 256.0 / 696e3 / 0.8])

# us = 5 + 2 steps + bytes / 100, but for one row of seven, which is an outlier: the least absolute errors ignore it.
lines = [({0: 1.0, 1: s, 2: b}, 5.0 + 2.0 * s + b / 100.0) for s, b in ((2, 1e3), (6, 1e3), (2, 1e5), (6, 1e5), (14, 1e4), (14, 1e6))]
assert np.allclose(least_relative_deviations(lines + [({0: 1.0, 1: 2.0, 2: 1e4}, 500.0)], 3), [5.0, 2.0, 0.01], rtol=1e-5)

# Rings on a switch with a latency for each step and one bandwidth: so does the op and the number of ranks that nobody
# measured, to 4 %, and a link type that nobody measured at its line rate, to 10 % from 64 MiB.
def ring_us(op, n, size):
    return 5.0 + (n - 1) * (2.0 if op == "all_reduce" else 1.0) * 0.8 + tables.wire_bytes(op, n, size) / 1.8e5


cells = {("a100_nccl", op, n): [ring_us(op, n, s) for s in tables.SIZES]
         for op in tables.OPS[:3] for n in tables.RANKS if (op, n) != ("all_reduce", 8)}
kriging = tables.Kriging(cells).solve()
for kind, op, faster, sizes, most in (("a100_nccl", "all_reduce", 1.0, slice(0, None), 0.04), ("h100_nccl", "all_gather", 1.5, slice(17, None), 0.1)):
    times_of = kriging.times((kind, op, 8))
    assert max(abs(t / ring_us(op, 8, s / faster) - 1.0) for t, s in list(zip(times_of, tables.SIZES))[sizes]) < most, (kind, times_of)

# A framework whose host is half as fast as it begins, on ops that are as long as twice its launches: all steps to 1 %.
cases = []
for batch in (1, 4, 16, 64):
    row = Example("pytorch", "resnet50", "v100-16g", "fp32", batch=batch, latency=1.0)
    case = devices.Case(row, [(1.0, [[["Conv2d", "fp32", int(1e8) * batch, 10**6 * batch]] for _ in range(50)])],
                        {"peak": {"fp32": 1.57e7}, "bytes": 9e5})
    case.measured = 2e-3 + 50 * max(8e-5, 2e-6 + (1e8 * batch + 5e7) / (1.57e13 * 0.5))
    cases.append(case)
numbers = devices.Numbers(cases).fit(range(4))
errors = abs(numbers.seconds(numbers.x)[0] / numbers.measured - 1.0)
assert max(errors) < 0.03, errors
assert math.isclose(numbers.seconds(numbers.start)[0][0], 2e-3 + 50 * 4e-5 + 2e-6 + 1.5e8 / (1.57e13 * 0.5),
                    rel_tol=1e-9)  # the host is the slower one: the last op begins when it is launched
print("ok")
