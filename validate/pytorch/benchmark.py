"""What the backend and copies in memory take: python3 benchmark.py RANK RANKS PORT OUT cpu|cuda [MODELS.py NAME]

Rank 0 writes OUT: for sizes of tensors the microseconds of a send, of a boundary of stages, and of an all_reduce. With NAME: what
replicas add to the step of that model, in parts.
"""
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist
from torch import nn

from measure import Stages, agreed, divided, joined, summed, wrapped
from process import Ahead, finish, loss_of, models_of, now, put_backend_ahead, untimed
from record import Training

SIZES = [64, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 25]
median, large = statistics.median, torch.zeros(1 << 21)


def forget():
    """Between two messages of a step a process computes: nothing that they need is in its nearer caches."""
    large.add_(1)


def tries(count):
    return range(3 if "EVALUATION_QUICK" in os.environ or untimed(dist.get_world_size(), sys.argv[5]) else count)


def taken(action, count, here=True, before=forget):
    """Median microseconds. A process that is not `here` waits."""
    spans = []
    for _ in tries(count):
        before()
        dist.barrier()
        begin = now()
        if here:
            action()
            finish()
        spans.append(now() - begin)
    return 1e6 * median(spans)


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.by


class Shifts:
    """A model of so many layers that compute next to nothing."""

    def __init__(self, size, layers):
        self.layers_of = lambda name: [Shift() for _ in range(layers)]
        self.input_of = lambda name, batch: torch.zeros(batch, size // 4)
        self.batch_of = lambda name: 1


def exchanges(rank, size, device):
    """The times of one size. At a boundary of stages: what a stage in each process takes longer than one process with all of them, for each
    boundary there and back a half."""
    ranks = dist.get_world_size()
    t, count, shifts = torch.zeros(size // 4), 15 if size > 1 << 22 else 25, Shifts(size, ranks)

    def there_and_back():
        with Ahead():
            dist.send(t, 1) if rank == 0 else dist.recv(t, 0)
            dist.recv(t, 1) if rank == 0 else dist.send(t, 0)

    stages = Stages(shifts, {"model": "", "micro_batches": 1, "chunks": [[r, r, r + 1] for r in range(ranks)], "device": device}, rank)
    summed_up = t.to(device)
    all_stages = taken(stages.step, count)
    whole = taken(Training(shifts, "", 1, device).step, count, rank == 0)
    return {"bytes": size, "send_us": taken(there_and_back, count, rank < 2) / 2, "boundary_us": (all_stages - whole) / 2 / (ranks - 1),
            "all_reduce_us": taken(lambda: dist.all_reduce(summed_up), count)}  # fmt: skip


class WithCopies(Training):
    """Copies all gradients into one tensor and back, as for an all_reduce, and sends nothing."""

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss_of(self.model(self.input)).backward()
        summed(self.model.parameters(), lambda flat: None)
        self.optimizer.step()


def longer(steps):
    """Median microseconds that each step, until all processes have ended it, takes longer than the first takes here. Steps take
    turns, so that a change of the machine's speed touches all. Each runs twice, because another one has used the caches before it."""
    here, ended = [], [[] for _ in steps]
    for _ in tries(15):
        for k, step in enumerate(steps):
            step()
            dist.barrier()
            begin = now()
            step()
            finish()
            taken = now() - begin
            ended[k].append(agreed(taken))
            if k == 0:
                here.append(taken)
    return [max(0, 1e6 * (median(spans) - median(here))) for spans in ended]


def of_model(models, name, device):
    """What replicas of the model add to its step. A step of one process, which nothing is sent in, with copies of gradients or with
    DistributedDataParallel, beside other such processes. Then, behind steps of one process each, which leave caches as they are in
    a step: sums of as many bytes as there are gradients, new weights by ZeroRedundancyOptimizer, and buffers."""
    ranks, everyone = dist.get_world_size(), dist.distributed_c10d._get_default_group()
    batch, own = max(1, models.batch_of(name) // ranks), [dist.new_group([rank]) for rank in range(ranks)][dist.get_rank()]
    put_backend_ahead(ranks)
    plain, copied, alone = (kind(models, name, batch, device) for kind in (Training, WithCopies, Training))
    refused = {}
    try:
        alone.model = wrapped(alone.model, alone.input, own)
    except RuntimeError as why:  # such as a buffer of a type that the backend does not send: costs its own ways alone
        refused, alone = {"refused": str(why).splitlines()[0]}, plain
    wait_us, flat_us, ddp_us = longer([plain.step, copied.step, alone.step])
    del copied, alone

    def behind(action):
        return taken(action, 15, before=plain.step)

    like, buffers = list(plain.model.parameters()), list(plain.model.buffers())
    total = max(4, sum(p.numel() * p.element_size() for p in like if p.grad is not None))
    rows = []
    for size in sorted({min(total, 1 << 20), total}):
        t = torch.zeros(size // 4, device=device)
        rows.append({"bytes": size, "all_reduce_us": behind(lambda: dist.all_reduce(t))})

    def send(group):
        dist._broadcast_coalesced(group, buffers, 250 << 20, 0)

    parts, more = [torch.zeros_like(p) for p in like], [torch.zeros_like(p) for p in like]
    return {"wait_us": wait_us, "flat_us": max(0, flat_us - wait_us), "ddp_us": max(0, ddp_us - wait_us), "rows": rows,
            "add_us": taken(lambda: [p.add_(m) for p, m in zip(parts, more)], 25),
            "weights_us": max(0, behind(divided(like).step) - behind(plain.optimizer.step) / 2),
            "buffers_us": max(0, behind(lambda: send(everyone)) - behind(lambda: send(own))) if buffers and not refused else 0, **refused}  # fmt: skip


def main():
    rank, ranks, port, out, device = sys.argv[1:6]
    rank = joined(rank, ranks, port, 60)
    if len(sys.argv) > 6:
        found = of_model(models_of(sys.argv[6]), sys.argv[7], device)
    else:
        found = {"rows": [exchanges(rank, size, device) for size in SIZES]}
    dist.barrier()
    if rank == 0:
        with open(out, "w") as file:
            json.dump(found, file, indent=1)
    dist.barrier()


if __name__ == "__main__":
    main()
