#!/usr/bin/env python3
"""Trains a step of pipelines that `baechi place --export pipelining` splits, with gloo and a process per stage (PyTorch 2.6): outputs and
gradients must be those of the whole model.

usage: torch_pipelines.py BAECHI"""
import json
import os
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
os.environ.update(USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo")
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(root, "tools"), os.path.dirname(os.path.abspath(__file__))]
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from torch import nn  # noqa: E402
from torch_zoo import Block  # noqa: E402

D = 128  # weights are most of the memory, so that it needs several devices


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(50, D), nn.ModuleList(Block(D) for _ in range(6))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 50, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Again(nn.Module):
    """b runs twice, and one ReLU everywhere."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = (nn.Linear(D, D) for _ in range(5))
        self.relu = nn.ReLU()

    def forward(self, x):
        x = self.relu(self.b(self.relu(self.c(self.relu(self.b(self.relu(self.a(x))))))))
        return self.e(self.relu(self.d(x)))


def gpt(b):
    return Gpt(), (torch.zeros(b, 8, dtype=torch.long),)


def again(b):
    return Again(), (torch.zeros(b, D),)


def encoder(b):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 4, 512, 0.0, batch_first=True), 6), (torch.zeros(b, 8, D),)


def made(name, batch):
    torch.manual_seed(0)
    model, inputs = globals()[name](batch)
    return model, tuple(torch.randint(0, 50, i.shape) if i.dtype is torch.long else torch.randn(i.shape) for i in inputs)


def work(rank, name, stages, file, results):
    from torch.distributed import pipelining
    torch.set_num_threads(1)
    count, pieces = stages["stages"], stages["micro_batches"]
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=count)
    model, _ = made(name, 2)
    _, data = made(name, 2 * pieces)

    def loss(out, _):
        return out.pow(2).mean() / pieces
    pipe = pipelining.pipeline(model, tuple(d[:2] for d in data), split_spec={
        n: pipelining.SplitPoint.BEGINNING for n in stages["split_spec"]})
    stage = pipe.build_stage(rank, torch.device("cpu"), dist.group.WORLD)
    schedule = getattr(pipelining, stages["schedule"])(stage, n_microbatches=pieces, loss_fn=loss)
    out = schedule.step(*(data if rank == 0 else ()), **({"target": torch.zeros(2 * pieces)} if rank == count - 1 else {}))
    whole, _ = made(name, 2)
    wanted = whole(*data)
    (wanted.pow(2).mean()).backward()
    gradients = dict((n, p.grad) for n, p in whole.named_parameters())
    wrong = [n for n, p in stage.submod.named_parameters() if not torch.allclose(p.grad, gradients[n], 1e-3, 1e-6)]
    if rank == count - 1 and not torch.allclose(out, wanted, 1e-3, 1e-5):
        wrong.append("the output")
    results.put((rank, wrong, [n for n, _ in stage.submod.named_parameters()]))
    dist.barrier()
    dist.destroy_process_group()


def run(baechi, name, count, folder):
    """What is wrong; "" if nothing is."""
    trace, file = os.path.join(folder, name + ".json"), os.path.join(folder, f"{name}{count}.stages")
    import baechi_torch
    document, _ = baechi_torch.trace(globals()[name], 2, True)
    baechi_torch.write(document, trace)
    held = sum(op["persistent_bytes"] for op in document["ops"])
    answer = subprocess.run([baechi, "place", trace, "--placer", "m_topo", "--devices", str(count), "--kind", "v100", "--memory",
                             f"{int(1.8 * held / count)} B", "--export", "pipelining", "-o", file], capture_output=True, text=True)
    if not os.path.exists(file):
        return answer.stderr + answer.stdout
    with open(file, encoding="utf-8") as opened:
        stages = json.load(opened) | ({"schedule": "ScheduleGPipe"} if "Schedule1F1B sends" in answer.stderr else {})  # gloo would wait
    import baechi_torch_map
    baechi_torch_map.run_stages(globals()[name], file, 2, baechi_torch.split)  # raises unless outputs are those of the whole model
    context, begin = mp.get_context("spawn"), os.path.join(folder, f"{name}{count}.begin")
    results = context.SimpleQueue()
    processes = [context.Process(target=work, args=(r, name, stages, begin, results)) for r in range(stages["stages"])]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    if any(p.exitcode != 0 for p in processes):
        return f"{stages['split_spec']}: exit codes {[p.exitcode for p in processes]}"
    found = [results.get() for _ in processes]
    names = sorted(n for _, _, part in found for n in part)
    if names != sorted(n for n, _ in made(name, 2)[0].named_parameters()):
        return f"{stages['split_spec']}: parameters {names}"
    wrong = [w for _, w, _ in found if w]
    return f"{stages['split_spec']}: {wrong}" if wrong else ("" if stages["stages"] > 1 else "one stage")


if __name__ == "__main__":
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for model, counts in (("gpt", (2, 4)), ("encoder", (2, 4)), ("again", (2,))):
            for number in counts:
                why = run(sys.argv[1], model, number, scratch)
                failed += bool(why)
                print(f"{model}, {number} devices: {why or 'as the whole model'}", flush=True)
    sys.exit(3 if failed else 0)
