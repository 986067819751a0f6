"""What the backend and copies in memory take: python3 benchmark.py RANK RANKS PORT OUT [MODELS.py NAME]

Rank 0 writes OUT: for sizes of tensors the microseconds of a send, of a boundary of stages, and of an all_reduce. With NAME, and
without running that model: the microseconds that its parameters and gradients take, copied into buckets and back, added up, and
sent as new weights.
"""
import datetime
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from measure import Stages
from process import Ahead, Layers, models_of, now, put_backend_ahead, settle
from record import Training

SIZES = [64, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 25]
median, large = statistics.median, torch.zeros(1 << 21)


def forget():
    """Between two messages of a step a process computes: nothing that they need is in its nearer caches."""
    large.add_(1)


def tries(count):
    return range(3 if "JUDGE_QUICK" in os.environ else count)


def taken(action, count, here=True):
    """Median microseconds. A process that is not `here` waits."""
    spans = []
    for _ in tries(count):
        forget()
        dist.barrier()
        begin = now()
        if here:
            action()
        spans.append(now() - begin)
    return 1e6 * median(spans)


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.by


class Shifts:
    """A model of two layers that compute next to nothing."""

    def __init__(self, size):
        self.layers_of = lambda name: [Shift(), Shift()]
        self.input_of = lambda name, batch: torch.zeros(batch, size // 4)
        self.batch_of = lambda name: 1


def exchanges(rank, size):
    """The times of one size. At the boundary of stages: half of what two stages take longer than one process, for there and back."""
    t, count, shifts = torch.zeros(size // 4), 15 if size > 1 << 22 else 25, Shifts(size)

    def there_and_back():
        with Ahead():
            dist.send(t, 1) if rank == 0 else dist.recv(t, 0)
            dist.recv(t, 1) if rank == 0 else dist.send(t, 0)

    stages = Stages(shifts, {"model": "", "micro_batches": 1, "chunks": [[0, 0, 1], [1, 1, 2]]}, rank)
    both = taken(stages.step, count)
    whole = taken(Training(shifts, "", 1).step, count, rank == 0)
    return {"bytes": size, "send_us": taken(there_and_back, count) / 2, "boundary_us": (both - whole) / 2,
            "all_reduce_us": taken(lambda: dist.all_reduce(t), count)}  # fmt: skip


class Parameters(nn.Module):
    """The parameters of a model, and next to no operations."""

    def __init__(self, like):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros_like(p)) for p in like])

    def forward(self):
        return sum(p.sum() for p in self.parts)


def copies(like):
    """Of all gradients of a model: what flattening, the way back, and adding to them takes one process."""
    parts = [torch.zeros_like(p) for p in like]
    more, times = [torch.zeros_like(p) for p in like], {"flatten": [], "unflatten": [], "add": []}

    def note(what, action):
        forget()
        begin = now()
        result = action()
        times[what].append(1e6 * (now() - begin))
        return result

    for _ in tries(25):
        flat = note("flatten", lambda: torch._utils._flatten_dense_tensors(parts))
        back = torch._utils._unflatten_dense_tensors(flat, parts)
        note("unflatten", lambda: (flat.div_(2), [p.copy_(b) for p, b in zip(parts, back)]))
        note("add", lambda: [p.add_(m) for p, m in zip(parts, more)])
        del flat, back
    return {what + "_us": median(t) for what, t in times.items()}


def of_model(models, name):
    """Each process has a group of its own, in which nothing is sent: what DistributedDataParallel itself takes. Then both send
    buffers, as it does before each forward pass, and new weights: the step of ZeroRedundancyOptimizer without any gradient."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = Layers(models.layers_of(name))
    like, buffers = list(model.parameters()), list(model.buffers())
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    put_backend_ahead()
    plain = Parameters(like)
    wrapped = DistributedDataParallel(Parameters(like), process_group=groups[dist.get_rank()])
    optimizer = ZeroRedundancyOptimizer(Parameters(like).parameters(), optimizer_class=torch.optim.SGD, lr=1e-3, foreach=False)

    def passes(model):
        model.zero_grad(set_to_none=True)
        model().backward()

    def send_buffers():
        dist._broadcast_coalesced(dist.distributed_c10d._get_default_group(), buffers, 250 << 20, 0)

    alone = taken(lambda: passes(plain), 25)
    return dict(copies(like), ddp_us=max(0, taken(lambda: passes(wrapped), 25) - alone), weights_us=taken(optimizer.step, 25),
                buffers_us=taken(send_buffers, 25) if buffers else 0)  # fmt: skip


def main():
    rank, ranks, port, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    settle(rank)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=60))  # fmt: skip
    dist.barrier()
    put_backend_ahead()
    found = of_model(models_of(sys.argv[5]), sys.argv[6]) if len(sys.argv) > 5 else {"rows": [exchanges(rank, size) for size in SIZES]}
    dist.barrier()
    if rank == 0:
        with open(out, "w") as file:
            json.dump(found, file, indent=1)
    dist.barrier()


if __name__ == "__main__":
    main()
