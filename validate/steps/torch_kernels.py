#!/usr/bin/env python3
"""Kernels of PyTorch timed alone on one GPU, in the form that `baechi validate published` and `validate fit` read.

usage: torch_kernels.py OUT [--seconds 60] [--device cuda|cpu] [--tiny]

OUT/measured gets aiconfigurator/gemm.csv (40 GEMMs in BF16), aiconfigurator/attention_forward.csv (8 causal attentions in BF16),
vidur/ops.csv (LayerNorm, GELU and add of decoder layers in FP16: 12 memory-bound kernels) and torch/convolutions.csv (20 convolutions,
each in TF32 and FP16). A row is written as soon as it is known; the groups take turns, so that the end of the time takes from all of
them. On the GPU a time is that of many launches in one CUDA graph, so that the host is not measured: the least of five graphs.
--tiny is for trying this script without a GPU: the times mean nothing.
Exit codes: 0; 1 the time was up, or a kernel failed; 77 no PyTorch, or no GPU for it.
"""
import argparse
import csv
import itertools
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

# (n, k) of linear layers of models of 125 M to 70 B parameters; decode, a prompt, and batches of training
GEMMS = [(m, n, k) for n, k in ((768, 3072), (2304, 768), (1024, 4096), (3072, 1024), (5504, 2048), (12288, 4096), (4096, 11008), (8192, 28672))
         for m in (16, 128, 512, 2048, 8192)]  # fmt: skip
# batch, tokens, heads, heads of keys, size of a head
ATTENTIONS = [(8, 1024, 12, 12, 64), (32, 128, 12, 12, 64), (4, 1024, 16, 4, 128), (1, 4096, 32, 32, 128), (1, 8192, 32, 8, 128),
              (4, 2048, 64, 8, 128), (16, 512, 16, 16, 64), (2, 16384, 8, 8, 64)]  # fmt: skip
# model, heads, hidden size, intermediate size; tokens
LAYERS = [("GPT-2", 12, 768, 3072, 8192), ("GPT-2 XL", 25, 1600, 6400, 2048), ("OPT-6.7B", 32, 4096, 16384, 4096), ("OPT-66B", 72, 9216, 36864, 1024)]
# batch, channels, size, filters, kernel, stride, groups: of ResNet-50, VGG-16, Inception v3, ResNeXt and MobileNet
CONVOLUTIONS = [(64, 3, 224, 64, 7, 2, 1), (64, 64, 56, 64, 1, 1, 1), (64, 64, 56, 64, 3, 1, 1), (64, 64, 56, 256, 1, 1, 1), (64, 256, 56, 128, 1, 1, 1),
                (64, 128, 56, 128, 3, 2, 1), (64, 512, 28, 128, 1, 1, 1), (64, 256, 14, 256, 3, 1, 1), (64, 1024, 14, 256, 1, 1, 1),
                (64, 512, 7, 512, 3, 1, 1), (64, 512, 7, 2048, 1, 1, 1), (64, 64, 224, 64, 3, 1, 1), (64, 256, 56, 256, 3, 1, 1),
                (64, 512, 28, 512, 3, 1, 1), (64, 512, 14, 512, 3, 1, 1), (32, 80, 73, 192, 3, 1, 1), (32, 288, 35, 384, 3, 2, 1),
                (64, 128, 56, 128, 3, 1, 32), (64, 512, 14, 512, 3, 1, 32), (64, 384, 14, 384, 3, 1, 384)]  # fmt: skip
HEADERS = {
    "aiconfigurator/gemm": "system,dtype,m,n,k,ms",
    "aiconfigurator/attention_forward": "system,batch,sequence,heads,kv_heads,head_dim,ms",
    "vidur/ops": "gpu,model,n_head,n_kv_head,hidden,ffn,gated,tokens,tp,input_layernorm_ms,post_attention_layernorm_ms,attn_rope_ms,mlp_act_ms,add_ms",
    "torch/convolutions": "system,dtype,batch,channels,size,filters,kernel,stride,groups,ms",
}  # fmt: skip


def system_of(device):
    """As the board names the GPU: `h100_sxm` of 'NVIDIA H100 80GB HBM3'."""
    words = torch.cuda.get_device_name().lower().split() if device == "cuda" else ["cpu"]
    known = ("a100", "h100", "h200", "b200", "b300", "l40s")
    name = next((word for word in words if word in known), "_".join(words))
    return name if name in ("l40s", "cpu") or name not in known else name + "_sxm"


def seconds_of(call, cuda):
    """Seconds of one call."""
    for _ in range(3):
        call()
    if not cuda:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    def timed(run):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3

    count = max(1, min(200, int(0.004 / max(timed(call), 1e-6))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    graph.replay()
    return min(timed(graph.replay) for _ in range(5)) / count


def gemm(system, new, shape):
    m, n, k = shape
    a, b = new(m, k, dtype=torch.bfloat16), new(n, k, dtype=torch.bfloat16)
    return [system, "bfloat16", m, n, k], [lambda: F.linear(a, b)]


def attention(system, new, shape):
    batch, length, heads, kv, size = shape
    q, k, v = (new(batch, h, length, size, dtype=torch.bfloat16) for h in (heads, kv, kv))
    k, v = (t.repeat_interleave(heads // kv, 1) for t in (k, v))  # before the time begins
    return [system, *shape], [lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)]


def memory_bound(system, new, shape):
    model, heads, hidden, ffn, tokens = shape
    x, y, h = (new(tokens, size, dtype=torch.float16) for size in (hidden, hidden, ffn))
    weight, bias = (new(hidden, dtype=torch.float16) for _ in range(2))
    calls = [lambda: F.layer_norm(x, (hidden,), weight, bias), lambda: F.gelu(h), lambda: x + y]
    return [system.removesuffix("_sxm"), model, heads, heads, hidden, ffn, False, tokens, 1], calls


def convolution(dtype):
    def make(system, new, shape):
        batch, channels, size, filters, kernel, stride, groups = shape
        as_dtype = torch.float16 if dtype == "fp16" else torch.float32
        x, w = new(batch, channels, size, size, dtype=as_dtype), new(filters, channels // groups, kernel, kernel, dtype=as_dtype)
        return [system, dtype, *shape], [lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)]

    return make


GROUPS = [  # file, how a kernel is made, shapes, a shape to try the script with
    ("aiconfigurator/gemm", gemm, GEMMS, (4, 8, 16)), ("torch/convolutions", convolution("tf32"), CONVOLUTIONS, (1, 4, 8, 4, 3, 1, 2)),
    ("vidur/ops", memory_bound, LAYERS, ("tiny", 2, 8, 32, 4)), ("aiconfigurator/attention_forward", attention, ATTENTIONS, (1, 4, 2, 1, 8)),
    ("torch/convolutions", convolution("fp16"), CONVOLUTIONS, (1, 4, 8, 4, 3, 2, 1)),
]  # fmt: skip


def cells(path, row, times):
    """The row of a file. A layer's norm stands once, and what a layer of this kind has not is empty."""
    ms = [f"{1e3 * t:.6g}" for t in times]
    return row + (["0.0" if t is None else t for t in (ms[0], None, None, ms[1], ms[2])] if path == "vidur/ops" else ms)


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("out")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    cuda, begin, bad = a.device == "cuda", time.perf_counter(), 0
    if cuda and not torch.cuda.is_available():
        print("no GPU for PyTorch (--device cpu --tiny tries the script)", file=sys.stderr)
        return 77
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = True, False  # PyTorch's defaults
    files, system = {}, system_of(a.device)
    for path, header in HEADERS.items():
        whole = os.path.join(a.out, "measured", f"{path}.csv")
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        files[path] = open(whole, "w", newline="")
        files[path].write(header + "\n")

    def new(*shape, dtype):
        return torch.randn(*shape, device=a.device).to(dtype if cuda else torch.float32)

    # PyTorch before 2.0 has no fused attention
    groups = [(path, make, [tiny] if a.tiny else shapes) for path, make, shapes, tiny in GROUPS
              if make is not attention or hasattr(F, "scaled_dot_product_attention")]  # fmt: skip
    for one_of_each in itertools.zip_longest(*([(path, make, shape) for shape in shapes] for path, make, shapes in groups)):
        for path, make, shape in filter(None, one_of_each):
            if time.perf_counter() - begin > a.seconds:
                print("the time is up")
                return 1
            try:
                with torch.no_grad():
                    row, calls = make(system, new, shape)
                    csv.writer(files[path], lineterminator="\n").writerow(cells(path, row, [seconds_of(call, cuda) for call in calls]))
                files[path].flush()
            except Exception as why:
                bad = 1
                print(f"{path} {shape}: {type(why).__name__}: {str(why)[:200]}", flush=True)
    print(f"{sum(len(shapes) for _, _, shapes in groups)} shapes of {system} in {time.perf_counter() - begin:.0f} s")
    return bad


if __name__ == "__main__":
    sys.exit(main())
