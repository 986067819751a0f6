#!/usr/bin/env python3
"""Checks tools/baechi_torch.py on ResNet-50, GPT-2 and BERT against published counts."""
import collections
import os
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(root, "tools"), os.path.join(root, "scenarios", "examples")]
import torch  # noqa: E402

import baechi_torch  # noqa: E402
import torch_models  # noqa: E402

D, L, B = 768, 1024, 128  # features; tokens of GPT-2 and BERT
# Parameters, and multiply-adds per sample: torchvision's counts; by hand from the papers' structures.
EXPECTED = {
    "resnet50": (25_557_032, 4_089_184_256),
    "gpt2": (124_439_808, L * (12 * (12 * D * D + 2 * L * D) + 50_257 * D)),
    "bert": (109_482_240, B * 12 * (12 * D * D + 2 * B * D) + D * D),
}
passed, failed = 0, 0


def check(what, got, wanted):
    global passed, failed
    passed, failed = passed + (got == wanted), failed + (got != wanted)
    if got != wanted:
        print(f"{what}: {got}, but {wanted} is expected")


for name, (parameters, multiply_adds) in EXPECTED.items():
    for training in (False, True):
        trace, facts = baechi_torch.trace(getattr(torch_models, name), 2, training)
        what = f"{name}, {'training' if training else 'inference'}"
        check(what + ": parameters", facts["parameters"], parameters)
        check(what + ": multiply-adds", facts["multiply_adds"], 2 * multiply_adds)
        held = collections.Counter()
        for op in trace["ops"]:
            held[op["phase"]] += op["persistent_bytes"]
        if training:  # gradients, and Adam's two slots
            check(what + ": bytes of gradients and of optimizer state", (held["backward"], held["update"]),
                  (4 * parameters, 8 * parameters))
        # Weights and, for ResNet-50, the statistics of its batch norms; GPT-2's table of positions 0, 1, ...
        buffers = {"resnet50": 53 * 8 + 2 * 4 * 26_560, "gpt2": 8 * L, "bert": 0}[name]
        check(what + ": bytes of weights and buffers", held["forward"], 4 * parameters + buffers)


class Bags(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.table = torch.nn.EmbeddingBag(1000, 8, mode="sum"), torch.nn.Embedding(1000, 8)

    def forward(self, words):
        return self.bag(words) + self.table(words[:, 0])


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.zeros(4))
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.b(self.a(x) + self.mask) * self.mask


class Sized(torch.nn.Module):
    def forward(self, x):
        return x + torch.full((x.shape[1], x.shape[1]), 1.0)


# A bag sums 3 rows of 8 numbers for each of 2 samples: 48 additions (its last kernel; the first makes offsets), and 192 bytes of rows instead of the table's 32,000. A table returns 2 rows of 32 bytes: read, written, and 2 indices of 8 bytes.
def bags(batch):
    return Bags(), (torch.zeros(batch, 3, dtype=torch.long),)


kernels = {op["kind"]: op["kernels"] for op in baechi_torch.trace(bags, 2)[0]["ops"]}
check("additions of a bag", kernels["EmbeddingBag"][-1]["flops"], 48)
check("a bag reads its rows alone", 192 < kernels["EmbeddingBag"][-1]["traffic_bytes"] < 1000, True)
check("bytes of rows of a table", kernels["Embedding"][0]["traffic_bytes"], 64 + 64 + 16)


# A buffer of 4 numbers that two ops read: the first holds its 16 bytes; unlike with a parameter,
# they are not colocated.
masked = {op["name"]: op for op in baechi_torch.trace(lambda batch: (Masked(), (torch.zeros(batch, 4),)), 2)[0]["ops"]}
readers = [op for op in masked.values() if op["kind"] in ("add", "mul")]
check("bytes of a buffer", sorted(op["persistent_bytes"] for op in readers), [0, 16])
check("groups of a buffer", readers[0]["colocation"] == readers[1]["colocation"], False)
check("a reader of a buffer is in no other group", all(op["colocation"] == [op["name"]] for op in readers), True)


# 2 x 4 numbers of 4 bytes for each of 3 x 3 pixels: read for the loss, and again for their gradients, which are written.
def pixels(batch):
    labels = torch.zeros(batch, 3, 3, dtype=torch.long, device="meta")
    return torch.nn.Conv2d(1, 4, 1), (torch.zeros(batch, 1, 3, 3),), lambda out: torch.nn.functional.cross_entropy(
        out, labels)


ops = {op["name"]: op for op in baechi_torch.trace(pixels, 2, True)[0]["ops"]}
check("a loss of pixels moves its input at least once", sum(k["traffic_bytes"] for k in ops["loss"]["kernels"]) >= 288, True)
check("so is its gradient", sum(k["traffic_bytes"] for k in ops["loss_grad"]["kernels"]) >= 576, True)
check("a size made of a size", [op["kind"] for op in baechi_torch.trace(lambda batch: (Sized(), (torch.zeros(batch, 4),)))[0]["ops"]],
      ["Input", "full", "add"])
print(f"{passed} passed, {failed} failed")
sys.exit(3 if failed else 0)
