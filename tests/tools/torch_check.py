#!/usr/bin/env python3
"""Checks tools/baechi_torch.py on ResNet-50, GPT-2 and BERT against published counts, and that `baechi` takes the traces.

usage: torch_check.py BAECHI"""
import collections
import os
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(root, "tools"), os.path.join(root, "scenarios", "examples")]
import baechi_torch  # noqa: E402
import torch_models  # noqa: E402

D, L, B = 768, 1024, 128  # features; tokens of GPT-2 and BERT
# Parameters, and multiply-adds per sample: torchvision's counts; by hand from the papers' structures.
EXPECTED = {
    "resnet50": (25_557_032, 4_089_184_256),
    "gpt2": (124_439_808, L * (12 * (12 * D * D + 2 * L * D) + 50_257 * D)),
    "bert": (109_482_240, B * 12 * (12 * D * D + 2 * B * D) + D * D),
}
baechi, passed, failed = sys.argv[1], 0, 0


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
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.json")
            baechi_torch.write(trace, path)
            run = subprocess.run([baechi, "place", path, "--placer", "m_topo", "--devices", "4", "--kind", "v100",
                                  "--export", "accelerate", "-o", path + ".map"], capture_output=True, text=True)
            check(what + ": exit code of place --export, " + run.stderr, run.returncode, 0)
            with open(path + ".map", encoding="utf-8") as file:
                names = baechi_torch.json.load(file)
            with baechi_torch.without_memory():
                known = dict(getattr(torch_models, name)(2)[0].named_modules())
            check(what + ": modules of the map that the model does not have", [n for n in names if n not in known], [])
print(f"{passed} passed, {failed} failed")
sys.exit(3 if failed else 0)
