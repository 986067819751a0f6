#!/usr/bin/env python3
"""Steps of public models on one GPU: seconds, peak bytes, kernels.

usage: steps.py OUT [--seconds 140] [--device cuda|cpu] [--tiny] [--only NAME,...]

OUT/steps.jsonl gets what runs here, and a line per case as soon as it is measured; OUT/NAME.PRECISION.kineto.json.gz has one
profiled step. A case that fails costs itself alone. Models are torchvision's and transformers', with random weights, and those
of gnmt.py and of scenarios/examples/torch_models.py, which has a ResNet-50 where torchvision is missing. The most valuable come first: what comes last is lost first. predicted.csv says what is expected.
--tiny is for trying this script without a GPU: the times mean nothing.
Exit codes: 0; 1 a case failed or was left out; 77 no PyTorch, or no GPU for it.
"""
import argparse
import gzip
import json
import os
import statistics
import sys
import time
from importlib import metadata

try:
    import torch
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "scenarios", "examples"))
import gnmt  # noqa: E402
import torch_models  # noqa: E402


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


def adam_w(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)


# A case makes (model, its loss, its optimizer).


def vision(name, batch, side=224):
    def make(tiny, device):
        b, s = (2, 96 if side < 299 else 299) if tiny else (batch, side)
        more = {"aux_logits": True, "init_weights": False} if name == "inception_v3" else {}
        try:
            import torchvision

            model = getattr(torchvision.models, name)(weights=None, **more)
        except ImportError:
            if name != "resnet50":
                raise
            model = torch_models.ResNet()
        x, y = torch.randn(b, 3, s, s, device=device), torch.randint(0, 1000, (b,), device=device)
        cross_entropy = torch.nn.functional.cross_entropy

        def loss(m):
            out = m(x)
            if not isinstance(out, tuple):
                return cross_entropy(out.float(), y)
            return cross_entropy(out[0].float(), y) + 0.4 * cross_entropy(out[1].float(), y)

        return model, loss, sgd

    return make


def language(kind, batch, length, **config):
    def make(tiny, device):
        import transformers as t

        b, n = (1, 16) if tiny else (batch, length)
        c = {"bert": t.BertConfig, "gpt2": t.GPT2Config, "llama": t.LlamaConfig}[kind](**config)
        model = {"bert": t.BertForPreTraining, "gpt2": t.GPT2LMHeadModel, "llama": t.LlamaForCausalLM}[kind](c)
        x = torch.randint(0, c.vocab_size, (b, n), device=device)
        more = {"next_sentence_label": torch.zeros(b, dtype=torch.long, device=device)} if kind == "bert" else {}
        return model, lambda m: m(input_ids=x, labels=x, **more).loss, adam_w

    return make


def unrolled(name):
    def make(tiny, device):
        if name == "gnmt":
            b, n, vocabulary, *shape = (2, 5, 100, 16, 3) if tiny else (64, 20, 32000, 1024, 4)
            model, inputs = gnmt.Gnmt(vocabulary, *shape), 2
        else:
            b, n, vocabulary, *shape = (2, 16, 100, 32, 2, 2) if tiny else (8, 512, 50257, 768, 12, 12)
            model, inputs = torch_models.Gpt2(vocabulary, n, *shape), 1
        *x, y = (torch.randint(0, vocabulary, (b, n), device=device) for _ in range(inputs + 1))
        return model, lambda m: torch.nn.functional.cross_entropy(m(*x).float().flatten(0, 1), y.flatten()), adam

    return make


CASES = [  # name, precision, how it is made
    ("resnet50-b64", "tf32", vision("resnet50", 64)), ("gpt2-b8-l1024", "amp", language("gpt2", 8, 1024)),
    ("bert-b32-l128", "amp", language("bert", 32, 128)), ("resnet50-b64", "amp", vision("resnet50", 64)),
    ("llama-b4-l1024", "bf16", language(
        "llama", 4, 1024, hidden_size=2048, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4,
        intermediate_size=5504, vocab_size=32000, max_position_embeddings=1024)),
    ("inception_v3-b32", "tf32", vision("inception_v3", 32, 299)), ("gnmt", "fp32", unrolled("gnmt")),
    ("gpt2_small", "fp32", unrolled("gpt2")), ("gpt2-b8-l1024", "tf32", language("gpt2", 8, 1024)),
    ("bert-b32-l128", "tf32", language("bert", 32, 128)), ("vgg16-b64", "tf32", vision("vgg16", 64)),
    ("resnet50-b64", "fp32", vision("resnet50", 64)),
]  # fmt: skip


def facts(device):
    """What runs here: versions of cuBLAS, cuDNN and NCCL among others."""
    packages = {d.metadata["Name"] or "": d.version for d in metadata.distributions()}
    said = {"torch": torch.__version__, "python": sys.version.split()[0],
            "packages": {n: v for n, v in sorted(packages.items()) if n.startswith(("nvidia-", "torchvision", "transformers"))}}
    if device == "cuda":
        said.update(gpu=torch.cuda.get_device_name(), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    return said


def memory(said):
    """Adds the peak, and apart from it cuBLAS's workspaces, 32 MiB for each handle and stream on Hopper: no tensors."""
    said.update(peak_bytes=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(),
                between_steps_bytes=torch.cuda.memory_allocated())
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces()
        said["cublas_workspaces"] = said["between_steps_bytes"] - torch.cuda.memory_allocated()


def profile(step, cuda, path):
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * cuda
    for _ in range(2):  # the first also loads the profiler
        with torch.profiler.profile(activities=kinds) as recorded:
            step()
    recorded.export_chrome_trace(path)
    with open(path, "rb") as file, gzip.open(path + ".gz", "wb", 5) as to:
        to.write(file.read())
    os.remove(path)


def measure(name, precision, make, a):
    tf32, cuda = precision != "fp32", a.device == "cuda"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.manual_seed(0)
    begin = time.perf_counter()
    model, loss, optimizer = make(a.tiny, a.device)
    model = model.to(a.device, torch.bfloat16 if precision == "bf16" and cuda else torch.float32).train()
    o = optimizer(model.parameters())

    def step(wait=True):
        o.zero_grad(set_to_none=True)
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=precision == "amp" and cuda):
            value = loss(model)
        value.backward()
        o.step()
        if wait and cuda:
            torch.cuda.synchronize()

    for _ in range(1 if a.tiny else 6):
        step()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    taken = []
    while len(taken) < (2 if a.tiny else 30) and (not taken or time.perf_counter() - begin < 25):
        t = time.perf_counter()
        step()
        taken.append(time.perf_counter() - t)
    said = {"case": name, "precision": precision, "at": round(time.time(), 1), "parameters": sum(p.numel() for p in model.parameters()),
            "step_seconds": statistics.median(taken), "all": [round(t, 6) for t in taken]}  # fmt: skip
    if cuda:
        t = time.perf_counter()  # steps behind one another: what training takes, the host hidden where it can be
        for i in range(10):
            step(wait=i == 9)
        said["behind_seconds"] = (time.perf_counter() - t) / 10
        memory(said)
    print(json.dumps(said), file=a.lines, flush=True)
    print(f"{name} {precision}: {1000 * said['step_seconds']:.2f} ms, peak {said.get('peak_bytes', 0) / 2**20:.0f} MiB", flush=True)
    profile(step, cuda, os.path.join(a.out, f"{name}.{precision}.kineto.json"))


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("out")
    p.add_argument("--seconds", type=float, default=140)
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--only", default=",".join(name for name, _, _ in CASES))
    a = p.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        print("no GPU for PyTorch (--device cpu --tiny tries the script)", file=sys.stderr)
        return 77
    os.makedirs(a.out, exist_ok=True)
    a.lines, begin, bad = open(os.path.join(a.out, "steps.jsonl"), "a"), time.perf_counter(), 0
    print(json.dumps(facts(a.device)), file=a.lines, flush=True)
    for name, precision, make in CASES:
        if name not in a.only.split(","):
            continue
        said = {"case": name, "precision": precision, "failed": "left out, the time is up"}
        if time.perf_counter() - begin < a.seconds:
            try:
                measure(name, precision, make, a)
                continue
            except Exception as why:
                said["failed"] = f"{type(why).__name__}: {str(why)[:400]}"
        bad = 1
        print(json.dumps(said), file=a.lines, flush=True)
        print(f"{name} {precision}: {said['failed'][:200]}", flush=True)
        if a.device == "cuda":
            torch.cuda.empty_cache()
    return bad


if __name__ == "__main__":
    sys.exit(main())
