"""One of the processes whose steps are measured: python3 measure.py RANK RANKS PORT MODELS.py JOB.json RESULTS

JOB.json is a list of cases. RESULTS gets a line of JSON for each case and round as it ends. Whoever started the
processes reads how far they came, so that a case that fails or hangs costs itself alone.
"""
import datetime
import gc
import json
import statistics
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from record import Training, seconds_of
from process import Ahead, Layers, finish, loss_of, models_of, now, peak_of, put_backend_ahead, rebuilt, settle, sgd, tensors_of, untimed


class Stages:
    """Chunks of layers on ranks, and the passes of micro-batches through them. As in torch.distributed.pipelining (2.x),
    a process that waits for what it receives also waits until all that it has sent is there."""

    def __init__(self, models, case, rank):
        self.rank, self.count, name, self.device = rank, case["micro_batches"], case["model"], case.get("device", "cpu")
        self.chunks = case["chunks"]  # (rank, first layer, the layer behind the last)
        size = models.batch_of(name) // self.count
        whole = models.input_of(name, size * self.count)
        self.inputs = [rebuilt(whole, iter([t[i * size : (i + 1) * size] for t in tensors_of(whole)])) for i in range(self.count)]
        try:
            self.like = self.received(models.layers_of(name), "meta")
        except (NotImplementedError, RuntimeError):  # some ops need numbers
            self.like = self.received(models.layers_of(name), self.device)
        layers = models.layers_of(name)  # as they were before they ran
        self.own = {c: Layers(layers[a:b]).to(self.device) for c, (r, a, b) in enumerate(self.chunks) if r == rank}
        self.inputs = [rebuilt(x, iter([t.to(self.device) for t in tensors_of(x)])) for x in self.inputs]
        if self.chunks[0][0] != rank:
            self.inputs = whole = None
        parameters = [p for part in self.own.values() for p in part.parameters()]
        self.optimizer = sgd(parameters) if parameters else None
        self.order = passes(case.get("schedule", "gpipe"), rank, self.chunks, self.count)

    def received(self, layers, device):
        """What each chunk receives of a micro-batch, on meta, found by running the layers on `device`."""
        like, x = {}, rebuilt(self.inputs[0], iter([t.to(device) for t in tensors_of(self.inputs[0])]))
        with torch.no_grad():
            for c, (_, first, end) in enumerate(self.chunks):
                like[c] = rebuilt(x, iter([torch.empty_like(t, device="meta") for t in tensors_of(x)]))
                x = Layers(layers[first:end]).to(device)(x)
        return like

    def arrived(self):
        """Waits for what was sent, and lets go of its tensors."""
        with Ahead():
            for work, _ in self.pending:
                work.wait()
        self.pending = []

    def receive(self, chunk, like):
        tensors = [torch.empty(t.shape, dtype=t.dtype) for t in tensors_of(like)]
        with Ahead():
            works = [dist.irecv(t, self.chunks[chunk][0]) for t in tensors]
            for work in [work for work, _ in self.pending] + works:
                work.wait()
        self.pending = []
        return [t.to(self.device) for t in tensors]  # gloo sends what is in the host's memory

    def send(self, tensors, chunk):
        tensors = [t.to("cpu").contiguous() for t in tensors]
        with Ahead():
            self.pending += [(dist.isend(t, self.chunks[chunk][0]), t) for t in tensors]

    def forward(self, c, i):
        x = self.inputs[i] if c == 0 else None
        if c > 0:
            received = self.receive(c - 1, self.like[c])
            for t in received:
                t.requires_grad_(t.is_floating_point())
            x = rebuilt(self.like[c], iter(received))
        y = self.own[c](x)
        if c + 1 == len(self.chunks):
            y = loss_of(y) / self.count
        else:
            self.send([t.detach() for t in tensors_of(y)], c + 1)
        self.kept[c, i] = x, y

    def backward(self, c, i):
        x, y = self.kept.pop((c, i))
        if c + 1 == len(self.chunks):
            y.backward()
        else:
            made = [t for t in tensors_of(y) if t.is_floating_point()]
            received = self.receive(c + 1, made)
            wanted = [(t, g) for t, g in zip(made, received) if t.requires_grad]
            if wanted:
                torch.autograd.backward([t for t, _ in wanted], [g for _, g in wanted])
        if c > 0:
            taken = [t for t in tensors_of(x) if t.is_floating_point()]
            self.send([torch.zeros_like(t) if t.grad is None else t.grad for t in taken], c - 1)

    def step(self):
        self.kept, self.pending = {}, []
        if self.optimizer:
            self.optimizer.zero_grad(set_to_none=True)
        for kind, c, i in self.order:
            (self.forward if kind == "F" else self.backward)(c, i)
        self.arrived()
        if self.optimizer:
            self.optimizer.step()


def passes(schedule, rank, chunks, count):
    """(F or B, chunk, micro-batch) in the order in which `rank` runs them."""
    own = [c for c, chunk in enumerate(chunks) if chunk[0] == rank]
    forwards = [("F", c, i) for i in range(count) for c in own]
    if schedule == "gpipe":
        return forwards + [("B", c, i) for i in reversed(range(count)) for c in reversed(own)]
    backwards = [("B", c, i) for i in range(count) for c in reversed(own)]
    ahead = min(count, len(chunks) - 1 - own[0])
    order = forwards[:ahead]
    for f, b in zip(forwards[ahead:], backwards):
        order += [f, b]
    return order + backwards[count - ahead :]


def summed(parameters, add_up):
    """All gradients in one tensor, added up over the replicas by `add_up`, divided, and copied back."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch._utils._flatten_dense_tensors(gradients)
    add_up(flat)
    flat.div_(dist.get_world_size())
    for gradient, part in zip(gradients, torch._utils._unflatten_dense_tensors(flat, gradients)):
        gradient.copy_(part)


def wrapped(model, x, group=None):
    """DistributedDataParallel looks for parameters without a gradient where a step leaves some."""
    loss_of(model(x)).backward()
    unused = any(p.grad is None for p in model.parameters())
    model.zero_grad(set_to_none=True)
    return DistributedDataParallel(model, process_group=group, find_unused_parameters=unused)


def bucket_bytes(model):
    """What DistributedDataParallel puts into buckets: gradients of weights that are trained, but for sparse ones."""
    return sum(p.numel() * p.element_size() for p, sparse in zip(*model._build_params_for_reducer()) if not sparse)


def divided(parameters):
    return ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.SGD, lr=1e-3, foreach=False)


class Replicas:
    """Each rank trains on its part of the batch."""

    def __init__(self, models, case, rank):
        name, ranks, device = case["model"], dist.get_world_size(), case.get("device", "cpu")
        size = models.batch_of(name) // ranks
        whole = models.input_of(name, size * ranks)
        self.input = rebuilt(whole, iter([t[rank * size : (rank + 1) * size].to(device, copy=True) for t in tensors_of(whole)]))
        self.model, self.flat = Layers(models.layers_of(name)).to(device), case["replicas"] == "all_reduce"
        if not self.flat:
            self.model = wrapped(self.model, self.input)
        self.optimizer = (divided if case["replicas"] == "zero1" else sgd)(self.model.parameters())

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss_of(self.model(self.input)).backward()
        if self.flat:
            summed(self.model.parameters(), dist.all_reduce)
        self.optimizer.step()


def timed(step, count):
    """Start and end of each of `count` steps on the machine's clock."""
    spans = []
    for _ in range(count):
        dist.barrier()
        begin = now()
        step()
        finish()
        spans.append((begin, now()))
    return spans


def agreed(value):
    """The largest value of any rank."""
    number = torch.tensor([float(value)], dtype=torch.float64)
    dist.all_reduce(number, dist.ReduceOp.MAX)
    return float(number)


def alone(models, case, rank):
    """Seconds of the step that was recorded: how fast the machine is in this minute. Processes of stages take turns, as
    they were recorded alone; replicas run at once."""
    training = Training(models, case["model"], case["batch"], case.get("device", "cpu"))
    once = seconds_of(training.step, 2)[-1]
    taken = []
    for turn in range(dist.get_world_size()) if "chunks" in case else [rank]:
        dist.barrier()
        if turn == rank:
            taken = seconds_of(training.step, int(min(8, max(2, 0.4 / once))))
    dist.barrier()
    return statistics.median(taken)


def measured(models, case, rank):
    """Times and, in the first round, the peak of memory. Where the machine tells no times, the peak alone."""
    result, tells_times = {"case": case["id"], "round": case["round"], "spans": []}, not untimed(dist.get_world_size(), case.get("device", "cpu"))
    if tells_times:
        result["alone"] = alone(models, case, rank)
    gc.collect()
    runs = (Stages if "chunks" in case else Replicas)(models, case, rank)
    runs.step()
    if tells_times:
        once = agreed(statistics.median(b - a for a, b in timed(runs.step, 2)))
        result["spans"] = timed(runs.step, int(min(12, max(4, 1.0 / once))))
    else:
        timed(runs.step, 2)
    if case["round"] == 0:
        dist.barrier()
        result["peak"] = peak_of(runs.step, runs.optimizer, case.get("device", "cpu"))
        if isinstance(getattr(runs, "model", None), DistributedDataParallel):  # its buckets, which Python cannot see
            result["peak"] += bucket_bytes(runs.model)
    return result


def joined(rank, ranks, port, seconds):
    """The rank of this process, which joins the others; messages may take so many seconds."""
    rank, ranks = int(rank), int(ranks)
    settle(rank, ranks)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=seconds))  # fmt: skip
    dist.barrier()
    put_backend_ahead(ranks)
    return rank


def main():
    rank, ranks, port, models, job, results = sys.argv[1:]
    rank = joined(rank, ranks, port, 30)
    models = models_of(models)
    with open(results, "a") as out:
        for case in json.load(open(job)):
            print(json.dumps({"begins": case["id"], "round": case["round"]}), file=out, flush=True)
            result = measured(models, case, rank)
            gc.collect()
            print(json.dumps(result), file=out, flush=True)


if __name__ == "__main__":
    main()
