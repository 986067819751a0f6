"""What the backend and the memory of this machine do, without running any model: python3 benchmark.py RANK RANKS PORT OUT [MODELS.py NAME]

Rank 0 writes OUT: for sizes of tensors the microseconds of a send and an all_reduce; and what a process alone takes to copy
gradients into a bucket and back, and to add them up. With NAME: only the microseconds in which an optimizer sends the new
weights of that model.
"""
import datetime
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist

from process import Ahead, Layers, models_of, now, put_backend_ahead, settle

SIZES = [64, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 25]
median = statistics.median


def taken(action, count):
    """Median microseconds."""
    spans = []
    for _ in range(3 if "JUDGE_QUICK" in os.environ else count):
        dist.barrier()
        begin = now()
        action()
        spans.append(now() - begin)
    return 1e6 * median(spans)


def exchanges(rank, size):
    """The times of one size."""
    t, count = torch.zeros(size // 4), 15 if size > 1 << 22 else 25

    def there_and_back():
        with Ahead():
            dist.send(t, 1) if rank == 0 else dist.recv(t, 0)
            dist.recv(t, 1) if rank == 0 else dist.send(t, 0)

    return {"bytes": size, "send_us": taken(there_and_back, count) / 2, "all_reduce_us": taken(lambda: dist.all_reduce(t), count)}


def new_weights(models, name):
    """Microseconds in which ZeroRedundancyOptimizer sends all weights of a model: its step without any gradient. No model runs."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    weights = [torch.nn.Parameter(torch.zeros_like(p)) for p in Layers(models.layers_of(name)).parameters()]
    optimizer = ZeroRedundancyOptimizer(weights, optimizer_class=torch.optim.SGD, lr=1e-3, foreach=False)
    return taken(optimizer.step, 25)


def alone(size):
    """Microseconds that a process alone takes for gradients of `size` bytes in all."""
    count = max(1, min(16, size >> 18))
    parts = [torch.zeros(size // 4 // count) for _ in range(count)]
    bucket, times = torch.zeros(sum(p.numel() for p in parts)), {"flatten": [], "unflatten": [], "fill": [], "empty": [], "add": []}

    def note(what, action):
        begin = now()
        result = action()
        times[what].append(1e6 * (now() - begin))
        return result

    views = torch._utils._unflatten_dense_tensors(bucket, parts)

    def each(action):
        for view, part in zip(views, parts):
            action(view, part)

    for _ in range(9):
        flat = note("flatten", lambda: torch._utils._flatten_dense_tensors(parts))
        back = torch._utils._unflatten_dense_tensors(flat, parts)
        note("unflatten", lambda: (flat.div_(2), [p.copy_(b) for p, b in zip(parts, back)]))
        del flat, back
        note("fill", lambda: each(lambda view, part: torch.mul(part, 0.5, out=view)))
        note("empty", lambda: each(lambda view, part: part.copy_(view)))
        note("add", lambda: each(lambda view, part: part.add_(view)))
    return dict({what + "_us": median(t) for what, t in times.items()}, bytes=size)


def of_sizes(rank, ranks):
    rows = [exchanges(rank, size) for size in SIZES] if ranks == 2 else []
    of_all = [None] * ranks
    dist.all_gather_object(of_all, rows)
    dist.barrier()
    return {"ranks": ranks, "rows": of_all, "copies": [alone(size) for size in SIZES[4:]] if rank == 0 else []}


def main():
    rank, ranks, port, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    settle(rank)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=60))  # fmt: skip
    dist.barrier()
    put_backend_ahead()
    found = {"weights_us": new_weights(models_of(sys.argv[5]), sys.argv[6])} if len(sys.argv) > 5 else of_sizes(rank, ranks)
    dist.barrier()
    if rank == 0:
        with open(out, "w") as file:
            json.dump(found, file, indent=1)
    dist.barrier()


if __name__ == "__main__":
    main()
