"""Kernels that were measured one by one, in measured/aiconfigurator and measured/vidur."""
import json
from dataclasses import dataclass

from board import Comparison, InputError, Scored, errors_of, facts

# dtype of the file: ours, and bytes of a number of the factors with its part of the scales.
DTYPES = {"bfloat16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "nvfp4": ("fp4", 0.5625)}
DEVICES = ("a100", "a40", "b200", "b300", "gb200", "gb300", "h100", "h200", "l40s", "rtx_pro_6000")
AT_ONCE = 4096


@dataclass
class Kernel:
    device: str
    group: str   # rows of one fit: "bf16", "64" (the size of a head), "GELU" (a type of op)
    what: str
    key: str     # rows with equal keys are in one fold of a cross-validation
    work: list   # [flops, bytes, dtype, matrix operation, count, rows, columns, inner], the last five of matrices
    us: float
    line: str


def device_of(system):
    for suffix in ("_sxm", "_server"):
        system = system.removesuffix(suffix)
    if system not in DEVICES:
        raise InputError(f"no kind of device '{system}'")
    return system


def measured_gemms(data, comparison):
    kernels = []
    for row in data.read("measured/aiconfigurator/gemm.csv", comparison):
        with comparison.row(row):
            m, n, k = (row.whole(column, 1) for column in "mnk")
            if row["dtype"] not in DTYPES:
                raise InputError(f"no kind has numbers for the format '{row['dtype']}'")
            dtype, size = DTYPES[row["dtype"]]
            kernels.append(Kernel(
                device_of(row["system"]), dtype, f"{row['system']} {row['dtype']} {m} x {n} x {k}", f"{n} x {k}",
                [2 * m * n * k, int(size * (m * k + k * n)) + 2 * m * n, dtype, "product", 1, m, n, k],
                1e3 * row.number("ms", 1e-6), row.line))
    return kernels


def measured_attention(data, comparison):
    kernels = []
    for row in data.read("measured/aiconfigurator/attention_forward.csv", comparison):
        with comparison.row(row):
            b, length, h, kv, d = (row.whole(c, 1) for c in ("batch", "sequence", "heads", "kv_heads", "head_dim"))
            kernels.append(Kernel(
                device_of(row["system"]), str(d),
                f"{row['system']}, batch {b}, {length} tokens, {h} heads of {d}, {kv} of keys", f"{h} {kv} {d}",
                [4 * b * h * length * length * d, 4 * b * length * (h + kv) * d, "bf16", "causal_attention", 2 * b * h,
                 length, d, length], 1e3 * row.number("ms", 1e-6), row.line))
    return kernels


def measured_passes(data, comparison):
    """Memory-bound kernels of a decoder's layer, in fp16, as the generators count them: a norm reads its input twice."""
    kernels = []
    for row in data.read("measured/vidur/ops.csv", comparison):
        with comparison.row(row):
            t, d, tp = (row.whole(column, 1) for column in ("tokens", "hidden", "tp"))
            f, h = row.whole("ffn", 1) // tp, row.whole("n_head", 1)
            rotated = d // h * (h + row.whole("n_kv_head", 1)) // tp
            gated = row["gated"] == "True"
            norm = "RMSNorm" if gated else "LayerNorm"
            for column, kind, numbers in (("input_layernorm_ms", norm, 3 * d),
                                          ("post_attention_layernorm_ms", norm, 3 * d),
                                          ("attn_rope_ms", "RotaryEmbedding", 2 * rotated),
                                          ("mlp_act_ms", "GatedSiLU" if gated else "GELU", (3 if gated else 2) * f),
                                          ("add_ms", "Add", 3 * d)):
                if row[column] not in ("", "0.0"):
                    kernels.append(Kernel(device_of(row["gpu"]), kind, f"{row['gpu']} {column}", row["model"],
                                          [0, 2 * t * numbers, "fp16"], 1e3 * row.number(column, 1e-6), row.line))
    return kernels


def measured_convolutions(data, comparison):
    """Convolutions that a visit to a GPU has measured in PyTorch (validate/steps/torch_kernels.py)."""
    kernels = []
    for row in data.read("measured/torch/convolutions.csv", comparison):
        with comparison.row(row):
            b, c, size, f, k, stride, groups = (
                row.whole(x, 1) for x in ("batch", "channels", "size", "filters", "kernel", "stride", "groups"))
            made, weights = b * f * ((size + stride - 1) // stride) ** 2, f * (c // groups) * k * k
            number = 2 if row["dtype"] == "fp16" else 4
            kernels.append(Kernel(
                device_of(row["system"]) + "_pytorch", "GroupedConv2d" if groups > 1 else "Conv2d",
                f"{row['system']} {row['dtype']} {b} x {c} x {size}^2, {f} of {k} x {k}", f"{c} {f} {k}",
                [2 * made * weights // f, number * (b * c * size * size + weights + made), row["dtype"]],
                1e3 * row.number("ms", 1e-6), row.line))
    return kernels


def ask(kernels, device=lambda kernel: kernel.device):
    """Simulated microseconds. `device`: the device type of a kernel, or its numbers, as a question has them."""
    groups = {}
    for i, kernel in enumerate(kernels):
        groups.setdefault(str(device(kernel)), []).append(i)
    parts = [members[at:at + AT_ONCE] for members in groups.values() for at in range(0, len(members), AT_ONCE)]
    answers = yield [{"ask": "kernels", "device": device(kernels[part[0]]),
                      "kernels": [[kernels[i].group, *kernels[i].work] for i in part]} for part in parts]
    times = [0.0] * len(kernels)
    for part, answer in zip(parts, answers):
        if "error" in answer:
            raise InputError(answer["error"])
        for i, us in zip(part, answer["times_us"]):
            times[i] = us
    return times


def of_other_devices(kind):
    """The device of a question about a kernel whose numbers are fitted to the kernels of other GPUs alone."""
    numbers = {(row["device"], row["group"]): json.loads(row["numbers"])
               for row in facts("left_out_kernels.csv") if row["kernels"] == kind}

    def device(kernel):
        own = numbers.get((kernel.device, kernel.group)) or numbers.get((kernel.device, ""))
        if own is None:
            return kernel.device
        return {"base": kernel.device, **(own if kind == "passes" else {kind: {kernel.group: own}})}
    return device


def score(data, read, by_flops, kind=None):
    all_of_them = Comparison()
    kernels = read(data, all_of_them)
    times = yield from ask(kernels)
    by_others = (yield from ask(kernels, of_other_devices(kind))) if kind else ()
    for kernel, us in zip(kernels, times):
        group, size = f"{kernel.device} {kernel.group}", float(kernel.work[1])
        all_of_them.rows.append(Scored(kernel.what, group, kernel.us, us, float(kernel.work[0]) if by_flops else size,
                                       group, size=size, lines=[kernel.line], family=kernel.device))
    if not kind:
        return all_of_them
    all_of_them.left_out = {"group": "GPU", **errors_of([Scored(measured=k.us, simulated=us) for k, us in zip(kernels, by_others)])}
    return all_of_them


def score_kernels(data):
    return score(data, measured_gemms, True, "products")


def score_attention(data):
    return score(data, measured_attention, True, "attention")


def score_passes(data):
    return score(data, measured_passes, False, "passes")


def score_convolutions(data):
    return score(data, measured_convolutions, True)
