#!/usr/bin/env python3
"""Compares traces of tools/baechi_torch.py with a training step of the same models on a CPU: weights, products of both passes,
gradients, Adam's state, modules, dtypes, and bytes that autograd keeps.

usage: torch_compare.py [MODEL ...]"""
import collections
import contextlib
import os
import sys
import warnings

warnings.simplefilter("ignore")
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(root, "tools"), os.path.dirname(os.path.abspath(__file__))]
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import baechi_torch  # noqa: E402
import torch_zoo as zoo  # noqa: E402
from baechi_torch_work import size_of, storage_of, tensors_of  # noqa: E402

BATCH, NEW = 2, torch.__version__ >= "2"
# torch 1.13 has no attention function, compiler or cond, and no lazy layers on meta.
ONLY_NEW = {"fused_attention", "masked_attention", "grouped_attention", "flex", "amp_attention", "compiled", "compiled_inside",
            "conditional", "lazy"}
H, T = 4, 8  # heads and tokens of the attentions: 2 products of T x T x D per sample; 2.5 times as much backward
LAYERS = 2 * BATCH * T * (3 * zoo.D * zoo.D + zoo.D * zoo.D)  # of q, k, v and the output
FUSED = 2 * 2 * BATCH * T * T * zoo.D
# Products by hand, where FlopCounterMode on a CPU counts something else.
BY_HAND = {  # those with attention
    # its formula of attention is that of the kernel; on a CPU a mask, or an unusual shape, runs as separate products
    "fused_attention": (LAYERS + FUSED, LAYERS * 2 - 2 * BATCH * T * 3 * zoo.D * zoo.D + 5 * FUSED // 2),
    "masked_attention": (LAYERS + FUSED, LAYERS * 2 - 2 * BATCH * T * 3 * zoo.D * zoo.D + 5 * FUSED // 2),
    "amp_attention": (LAYERS + FUSED, LAYERS * 2 - 2 * BATCH * T * 3 * zoo.D * zoo.D + 5 * FUSED // 2),
    # layers q of D x D, k and v of D x 8; x needs no gradient
    "grouped_attention": (2 * BATCH * T * zoo.D * (zoo.D + 16) + FUSED, 2 * BATCH * T * zoo.D * (zoo.D + 16) + 5 * FUSED // 2),
    "flex": (2 * BATCH * 128 * 3 * zoo.D * zoo.D + 4 * BATCH * 128 * 128 * zoo.D,
             2 * BATCH * 128 * 3 * zoo.D * zoo.D + 10 * BATCH * 128 * 128 * zoo.D),
    # layers of D x D and D x 4; modes of 1.13 see no products in inference mode
    "inference_mode": (2 * BATCH * (zoo.D * zoo.D + 4 * zoo.D), 2 * BATCH * 4 * zoo.D),
    # 4 gates of 16 x (D + 16) per token, one fused kernel on a CPU; no gradients of the input and of the first state
    "lstm": (2 * BATCH * (4 * 64 * (zoo.D + 16) + 64), 2 * BATCH * (4 * 64 * (zoo.D + 32) - 64 * 16 + 2 * 64)),
}
# Backward products that FlopCounterMode leaves out or adds.
MORE = {
    "encoder": 2 * FUSED // 2 if NEW else 0, "seq2seq": 3 * FUSED // 2 if NEW else 0,  # dropout: separate products on a CPU
    # groups: 9 outputs of 8 channels, each of 2 inputs x 9 for the weight; it takes them for 8 inputs
    "conv_net": (2 * BATCH * 9 * 8 * 9 * (2 - 8)) if NEW else 0,
}
# What autograd saves on a CPU is not compared where
KEPT = {
    # attention runs as other kernels there (README: q, k, v, output and logsumexp here)
    "encoder", "seq2seq", "fused_attention", "masked_attention", "grouped_attention", "amp_attention", "flex", "lstm", "bag",
    # a saved tensor is never read: the graph before detach() is dropped; indices and sizes of index operations
    "detached", "routed", "routed_by_value", "routed_by_mask", "routed_to_hit", "lstm_cell", "spectral", "straight_through", "graph_layer",
    # CPU's list of autocast is another: layer_norm stays in bf16
    "autocast",
}
# torch 1.13 keeps the inputs of a checkpoint as Python objects, its batch norm on a CPU fewer statistics.
KEPT_OLD = {"recomputed", "checkpoint_amp", "conv_net"}
DTYPES = {"half": "bf16", "autocast": "bf16", "amp_attention": "bf16", "checkpoint_amp": "bf16", "amp_cnn": "bf16"}
passed, failed = 0, []


def check(what, got, wanted):
    global passed
    if got == wanted:
        passed += 1
    else:
        failed.append(f"{what}: {got}, but {wanted} is expected")


class Products(TorchDispatchMode):
    """FlopCounterMode's rule, for versions without it."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if name in ("mm", "bmm"):
            self.total += 2 * args[0].numel() * args[1].shape[-1]
        elif name in ("addmm", "baddbmm"):
            self.total += 2 * args[1].numel() * args[2].shape[-1]
        elif name in ("convolution", "convolution_overrideable", "mkldnn_convolution"):
            self.total += 2 * (args[0] if args[6] is True else out).numel() * (args[1].numel() // args[1].shape[0])
        elif name == "convolution_backward":
            each = 2 * (args[1] if args[7] else args[0]).numel() * (args[2].numel() // args[2].shape[0])
            self.total += each * (args[10][0] + args[10][1])
        return out


class Nothing(contextlib.nullcontext):
    total = 0


def counter(name):
    if name == "flex":  # modes have no rule for it
        return Nothing()
    if NEW:
        from torch.utils.flop_counter import FlopCounterMode
        return FlopCounterMode(display=False)
    return Products()


def total(mode):
    return mode.total if isinstance(mode, (Products, Nothing)) else mode.get_total_flops()


def on_cpu(value):
    return torch.randn(value.shape).to(value.dtype) if value.is_floating_point() else torch.randint(0, 8, value.shape)


def real_step(function):
    """(parameters, bytes of weights and buffers, forward, backward products, bytes of gradients, of Adam's state, kept)."""
    torch.manual_seed(0)
    model, inputs, *loss = function(BATCH)
    model.train()
    for weight in model.parameters():
        if not getattr(weight, "cls_to_become", None):
            torch.nn.init.normal_(weight)
    if isinstance(inputs, dict):
        args, kwargs = (), inputs
    else:
        args, kwargs = inputs, {}
    given = {id(t): on_cpu(t) for t in tensors_of([args, kwargs])}
    for tensor in tensors_of([args, kwargs]):
        if tensor.is_floating_point():
            tensor.normal_()
        else:
            tensor.copy_(given[id(tensor)])
    saved = {}

    def pack(tensor):
        if tensor.dim():  # not numbers, such as the 2 of x * 2
            storage = tensor.untyped_storage() if NEW else tensor._storage()
            saved[storage_of(tensor)] = (storage.nbytes(), tensor)
        return tensor
    zoo.AMP = "cpu"
    if NEW:
        torch.compiler.set_stance("force_eager")
        torch.cond = lambda pred, true_fn, false_fn, operands: false_fn(*operands)
    if any(getattr(p, "cls_to_become", None) for p in model.parameters()):
        model(*args, **kwargs)
    forward, backward = counter(function.__name__), counter(function.__name__)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        model(*args, **kwargs)
    with forward:
        out = model(*args, **kwargs)
    result = (loss[0] if loss else baechi_torch.default_loss)(out)
    with backward:
        result.backward()
    weights = {storage_of(t) for t in list(model.parameters()) + list(model.buffers())}
    kept = sum(size for memory, (size, _) in saved.items() if memory not in weights)
    adam = torch.optim.Adam(model.parameters())
    with_gradient = [p for p in model.parameters() if p.grad is not None]
    adam.step()
    state = sum(size_of(t) for s in adam.state.values() for k, t in s.items() if k != "step")
    return {"parameters": sum(p.numel() for p in model.parameters()), "weights": sum(map(size_of, list(model.parameters()) + list(model.buffers()))),
            "forward": total(forward), "backward": total(backward), "gradients": sum(size_of(p.grad) for p in with_gradient), "state": state,
            "kept": kept, "modules": dict(model.named_modules())}


def compare(function):
    name = function.__name__
    zoo.AMP = "cuda"
    cond = getattr(torch, "cond", None)
    trace, facts = baechi_torch.trace(function, BATCH, True)
    if os.environ.get("SHOW"):
        for op in trace["ops"]:
            print(op["name"], op["kind"], op.get("module"), op["kernels"], op["outputs"], op["persistent_bytes"])
    real = real_step(function)
    torch.cond = cond
    if name in BY_HAND:
        real["forward"], real["backward"] = BY_HAND[name]
    real["backward"] += MORE.get(name, 0)
    held = collections.Counter()
    for op in trace["ops"]:
        held[op["phase"]] += op["persistent_bytes"]
    check(name + ": parameters", facts["parameters"], real["parameters"])
    check(name + ": bytes of weights", held["forward"], real["weights"])
    check(name + ": forward products", 2 * facts["multiply_adds"], real["forward"])
    check(name + ": backward products", facts["backward_products"], real["backward"])
    check(name + ": bytes of gradients", held["backward"], real["gradients"])
    check(name + ": bytes of Adam's state", held["update"], real["state"])
    check(name + ": modules that the model has not", [op["module"] for op in trace["ops"] if op.get("module", "") not in real["modules"]], [])
    used = {op.get("module", "") for op in trace["ops"] if op["phase"] == "forward"}
    layers = [n for n, m in real["modules"].items() if next(m.children(), None) is None and list(m.parameters(recurse=False)) and
              type(m).__module__.startswith("torch.nn") and n not in used]
    check(name + ": layers without an op", layers, {"conditional": ["small"], "unused": ["b"]}.get(name, [
        n for n in layers if n.endswith("out_proj")]))
    products = {k.get("precision", "fp32") for op in trace["ops"] if op["phase"] != "update" and op["kind"].startswith(("Linear", "scaled"))
                for k in op["kernels"] if k["flops"] > k["traffic_bytes"] // 2}
    if products:
        check(name + ": dtype of products", products, {DTYPES.get(name, "fp32")})
    names = [op["name"] for op in trace["ops"]]
    check(name + ": names are unique", len(names), len(set(names)))
    place = {n: i for i, n in enumerate(names)}
    back = [e for e in trace["edges"] + trace["controls"] if place[e["from"]] >= place[e["to"]]]
    check(name + ": edges against the order", back, [])
    size = {op["name"]: [t["bytes"] for t in op["outputs"]] for op in trace["ops"]}
    phase = {op["name"]: op["phase"] for op in trace["ops"]}
    kept = {(e["from"], e["output"]) for e in trace["edges"] if phase[e["from"]] == "forward" and phase[e["to"]] == "backward" and
            e["from"] != "loss" and e["to"] != "loss_grad"}
    if name not in KEPT and (NEW or name not in KEPT_OLD):
        check(name + ": bytes kept for the backward pass", sum(size[op][output] for op, output in kept), real["kept"])


if __name__ == "__main__":
    chosen = [f for f in zoo.ALL if (not sys.argv[1:] or f.__name__ in sys.argv[1:]) and (NEW or f.__name__ not in ONLY_NEW)]
    for model in chosen:
        try:
            compare(model)
        except Exception as why:
            if os.environ.get("SHOW"):
                raise
            failed.append(f"{model.__name__}: {type(why).__name__}: {str(why)[:300]}")
    for model, words in zoo.REFUSED.items():
        try:
            baechi_torch.trace(model, BATCH, True)
            check(model.__name__, "traced", "refused")
        except baechi_torch.NotTraced as why:
            check(model.__name__ + f": {why}", words in str(why), True)
    print("\n".join(failed))
    print(f"{len(chosen)} models on PyTorch {torch.__version__}: {passed} passed, {len(failed)} failed")
    sys.exit(3 if failed else 0)
