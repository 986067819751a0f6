"""The recipe of a recording: the calls of one step, the times of others, and steps without a profiler between them.

One process: python3 record.py CORE MODELS.py NAME OUT cpu|cuda BATCH...   writes, for each batch, OUT/NAME_BATCH with the endings
(8@2+3 is a batch of 8 whose step runs in stages that begin at layers 2 and 3)
    .et.json          the calls and tensors of one step (ExecutionTraceObserver)
    .K.kineto.json    the times of another step (Kineto), K = 0, 1, ...
    .json             what the steps took without a profiler, and how much more with a wait between their passes
An observer and a profiler over the same step would lengthen its operations, by up to 41 % on a processor.
"""
import gc
import json
import os
import statistics
import sys
import time

import torch

from process import Layers, loss_of, models_of, now, rebuilt, settle, sgd, storage_of, tensors_of


def profiler(device, **more):
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=kinds, **more)


def record_calls(step, path):
    """The execution trace of one step. PyTorch 1.13 has the observer under its old name."""
    kind = getattr(torch.profiler, "ExecutionTraceObserver", None) or torch.profiler.ExecutionGraphObserver
    observer = kind()
    observer.register_callback(path)
    observer.start()
    step()
    observer.stop()
    observer.unregister_callback()


def record_times(step, path, device="cpu", memory=False):
    """The Kineto trace of one step, with its allocations if asked for."""
    with profiler(device, profile_memory=memory) as recorded:
        step()
    if torch.profiler.kineto_available():
        recorded.export_chrome_trace(path)
    else:
        write_events(recorded.profiler.kineto_results, path)


def write_events(results, path):
    """The trace of a PyTorch that was built without Kineto. Its own export leaves out all allocations and some calls."""
    begin = results.trace_start_ns() if hasattr(results, "trace_start_ns") else 1000 * results.trace_start_us()
    events, waiting = [], list(results.experimental_event_tree())
    while waiting:
        e = waiting.pop()
        waiting += e.children
        what = {"name": e.name, "ts": (e.start_time_ns - begin) / 1e3, "tid": e.start_tid, "pid": "CPU functions"}
        if e.name == "[memory]":
            size, address = e.extra_fields.alloc_size, e.extra_fields.ptr
            events.append((e.start_time_ns, dict(what, ph="i", args={"Bytes": size, "Addr": address, "Device Type": 0})))
        else:
            events.append((e.start_time_ns, dict(what, ph="X", dur=e.duration_time_ns / 1e3, args={})))
    with open(path, "w") as file:
        json.dump([event for _, event in sorted(events, key=lambda both: both[0])], file)


def seconds_of(step, count):
    taken = []
    for _ in range(count):
        begin = now()
        step()
        taken.append(now() - begin)
    return taken


class Training:
    """The step of a whole model in one process, of one piece or as stages that begin at the layers `starts` run it."""

    def __init__(self, models, name, batch, device="cpu", starts=()):
        whole = models.input_of(name, batch)
        self.input = rebuilt(whole, iter([t.to(device) for t in tensors_of(whole)]))
        self.model, self.device, self.starts = Layers(models.layers_of(name), frames=True).to(device), device, list(starts)
        self.optimizer = sgd(self.model.parameters())

    def forward(self):
        """The loss, and of each stage but the last what it made and what the next one took."""
        x, passed = self.input, []
        for first, end in zip([0, *self.starts], [*self.starts, None]):
            if first > 0:
                made = tensors_of(x)
                with torch.profiler.record_function(f"layers.{first - 1}.sent"):  # what is sent lies in one piece
                    taken = [t.detach().contiguous().detach().requires_grad_(t.is_floating_point()) for t in made]
                passed.append((made, taken))
                x = rebuilt(x, iter(taken))
            x = self.model(x, first, end)
        return loss_of(x), passed

    @staticmethod
    def backward(loss, passed):
        """Stage by stage; the gradient of a tensor that a stage has not used is zero."""
        loss.backward()
        for made, taken in reversed(passed):
            with torch.no_grad():  # numbered by autograd, these calls would pass for a forward pass
                wanted = [(m, torch.zeros_like(t) if t.grad is None else t.grad.contiguous()) for m, t in zip(made, taken) if m.requires_grad]
            if wanted:
                torch.autograd.backward(*map(list, zip(*wanted)))

    def state(self):
        """The bytes of each layer's weights and buffers that no layer before it has, and those of all weights that get no gradient."""
        found, layers = set(), []
        for layer in self.model.layers:
            own = {storage_of(t).data_ptr(): storage_of(t).nbytes() for t in [*layer.parameters(), *layer.buffers()]}
            layers.append(sum(size for key, size in own.items() if key not in found))
            found |= own.keys()
        loss_of(self.model(self.input)).backward()
        left = sum(p.numel() * p.element_size() for p in self.model.parameters() if p.requires_grad and p.grad is None)
        self.optimizer.zero_grad(set_to_none=True)
        return {"layers": layers, "without_gradient": left}

    def step(self, wait=0.0):
        """Seconds without `wait`, which comes before the backward pass."""
        begin = now()
        self.optimizer.zero_grad(set_to_none=True)
        loss, passed = self.forward()
        forward = now()
        if wait:
            time.sleep(wait)
        resumed = now()
        self.backward(loss, passed)
        self.optimizer.step()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return now() - resumed + forward - begin


    def otherwise(self):
        """The layers at which a stage that begins there would compute otherwise than the whole model does: it receives, or sends as a
        gradient, in one piece what lies in memory otherwise here, or the whole model has no gradient of what it receives."""
        x, received, straight = self.input, {}, {}
        for i in range(len(self.model.layers)):
            if i > 0:
                received[i] = [t.view_as(t) for t in tensors_of(x)]
                straight[i] = [t.is_contiguous() and not t.is_floating_point() for t in received[i]]
                for k, t in enumerate(received[i]):
                    if t.requires_grad:  # false until its gradient comes
                        t.register_hook(lambda g, at=straight[i], k=k, lies=t.is_contiguous(): at.__setitem__(k, lies and g.is_contiguous()))
                x = rebuilt(x, iter(received[i]))
            x = self.model(x, i, i + 1)
        loss_of(x).backward()
        self.optimizer.zero_grad(set_to_none=True)
        return [i for i in received if not all(straight[i])]


def shared(layers):
    """The cuts between layers that share a parameter, with its name."""
    first, found = {}, {}
    for i, layer in enumerate(layers):
        for name, p in layer.named_parameters():
            for cut in range(first.setdefault(id(p), i) + 1, i + 1):
                found.setdefault(cut, name)
    return found


def unsteady(steps):
    """Whether the middle half of the steps lies more than a tenth apart."""
    low, middle, high = statistics.quantiles(steps, n=4)
    return high - low > 0.1 * middle


def record(models, name, batches, out, device="cpu", rounds=3, each=3):
    """Batches take turns, so that a change of the machine's speed touches all. While a step is unsteady, up to twice as many rounds."""
    trainings, plain, waited, otherwise, state = {}, {batch: [] for batch in batches}, {batch: [] for batch in batches}, {}, {}
    for batch in batches:
        try:
            size, _, starts = batch.partition("@")
            otherwise[batch] = [] if starts else Training(models, name, int(size), device).otherwise()
            training = Training(models, name, int(size), device, map(int, starts.split("+")) if starts else ())
            state[batch] = training.state()
            seconds_of(training.step, 2)
            record_calls(training.step, f"{out}/{name}_{batch}.et.json")
            record_times(training.step, f"{out}/{name}_{batch}.0.kineto.json", device)  # not used: the profiler is loaded
            trainings[batch] = training
        except Exception as why:  # costs this batch alone
            print(f"{name}, batch {batch}: {why}", file=sys.stderr)
    for r in range(2 * rounds):
        if r >= rounds and not any(unsteady(plain[batch]) for batch in trainings):
            break
        for batch, training in trainings.items():
            seconds_of(training.step, 1)
            for k in range(each):
                plain[batch] += seconds_of(training.step, 3)[1:]  # the first is slower, because the profiler ran before it
                waited[batch].append(training.step(plain[batch][-1] / 2) - statistics.mean(plain[batch][-2:]))
                record_times(training.step, f"{out}/{name}_{batch}.{r * each + k}.kineto.json", device, r + k == 0)
            gc.collect()
    for batch in trainings:
        with open(f"{out}/{name}_{batch}.json", "w") as file:
            middle = statistics.median(plain[batch])
            colder = max(0, statistics.median(waited[batch]))
            inputs = tensors_of(trainings[batch].input)
            json.dump({"step_seconds": middle, "all": plain[batch], "after_wait_seconds": colder, "otherwise": otherwise[batch], "state": state[batch],
                       "shared": sorted(shared(trainings[batch].model.layers)), "inputs": [t.numel() * t.element_size() for t in inputs],
                       "float_inputs": [t.numel() * t.element_size() for t in inputs if t.is_floating_point()]}, file)  # fmt: skip


def main():
    core, models, name, out, device, *batches = sys.argv[1:]
    settle(int(core))
    rounds = 1 if "EVALUATION_QUICK" in os.environ else 3
    record(models_of(models), name, batches, out, device, rounds)


if __name__ == "__main__":
    main()
