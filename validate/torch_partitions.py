#!/usr/bin/env python3
"""Unmodified PyTorch kernels on parts of one GPU: model-parallel training steps against predictions.

usage: torch_partitions.py OUT [--models resnet,bert,gpt2] [--parts 4] [--sms 24] [--micro-batches 4]
                           [--repeats 20] [--seconds 120]

A model is cut into as many stages as there are parts, a stage per part, each part a green context with a stream of its
own. A step sends micro-batches forward through the stages and gradients back; a task is one stage of one micro-batch,
forward or backward. Every kind of task is first timed alone, in the first part: predicted is the step that queues,
dependencies and those times make, with the gaps that empty tasks take. Nothing of a whole step is told to the
prediction, and OUT/NAME.prediction.csv is written before the step runs.

OUT gets tasks.csv (what was profiled), NAME.prediction.csv, NAME.timeline.csv, steps.csv (measured, predicted, error)
and machine.txt. The host submits as it runs: where its time per step is near the step's, host_bound says yes, and the
error is not of the model. Never run on a GPU yet. Needs PyTorch 2 and cuda-bindings (cuda.bindings.driver).
Exit codes: 0 done; 1 a model failed; 2 wrong arguments; 77 no PyTorch 2, no cuda-bindings or no GPU.
"""
import argparse, collections, csv, os, statistics, sys, time

MODELS = ("resnet", "bert", "gpt2")
Task = collections.namedtuple("Task", "kind stage batch after")  # after: indices of tasks


def skip(why):
    print(f"skipped: {why}", file=sys.stderr)
    sys.exit(77)


# ---- what runs, and what is predicted: needs neither PyTorch nor a GPU


def tasks_of(stages, batches):
    """One step in the order in which it is submitted: all forward tasks, then all backward tasks."""
    tasks, index = [], {}

    def add(kind, stage, batch, after):
        index[kind, stage, batch] = len(tasks)
        tasks.append(Task(kind, stage, batch, [index[a] for a in after]))

    for batch in range(batches):
        for stage in range(stages):
            add("forward", stage, batch, [("forward", stage - 1, batch)] if stage else [])
    for batch in range(batches):
        for stage in reversed(range(stages)):
            after = [("forward", stage, batch)]
            if stage + 1 < stages:
                after.append(("backward", stage + 1, batch))
            add("backward", stage, batch, after)
    return tasks


def predicted(tasks, length, same_gap=0.0, cross_gap=0.0):
    """(start, end) of each task, us: a part runs its tasks in order, each once what it comes after has ended.
    length: of (kind, stage)."""
    times, last = [], {}
    for task in tasks:
        start = last[task.stage] + same_gap if task.stage in last else 0.0
        for other in task.after:
            gap = 0.0 if tasks[other].stage == task.stage else cross_gap
            start = max(start, times[other][1] + gap)
        end = start + length[task.kind, task.stage]
        last[task.stage] = end
        times.append((start, end))
    return times


def step_of(times):
    return max(end for _, end in times) - min(start for start, _ in times)


# ---- the GPU


def parts_of(driver, torch, count, sms):
    """A stream per part. Green contexts as the driver's manual has them: resource, split, descriptor, context, stream."""

    def done(result):
        if int(result[0]) != 0:
            raise RuntimeError(f"{result[0]}")
        return result[1] if len(result) == 2 else result[1:]

    torch.cuda.init()
    torch.zeros(1, device="cuda")  # the primary context
    device = done(driver.cuDeviceGet(0))
    whole = done(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    groups = done(driver.cuDevSmResourceSplitByCount(count, whole, 0, sms))[0]
    if len(groups) < count:
        raise RuntimeError(f"{len(groups)} parts of {sms} multiprocessors, not {count}")
    streams = []
    for group in groups[:count]:
        descriptor = done(driver.cuDevResourceGenerateDesc([group], 1))
        context = done(driver.cuGreenCtxCreate(
            descriptor, device, int(driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)))
        stream = done(driver.cuGreenCtxStreamCreate(context, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING), 0))
        streams.append(torch.cuda.ExternalStream(int(stream)))
    return streams, [group.sm.smCount for group in groups[:count]]


def masked(torch, block, length):
    """A transformer block with its mask, as a module of one input."""

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = block
            self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))

        def forward(self, x):
            return self.block(x, self.mask)

    return Masked()


def build(name, torch, stages):
    """(stages of the model, input of the first): no embedding and no head, so that stages are alike in length."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import record_pytorch as models

    if name == "resnet":
        blocks = [models.Bottleneck(256, 64, 1) for _ in range(2 * stages)]
        first = torch.randn(16, 256, 28, 28, device="cuda")
    else:
        width, heads, length = 512, 8, 256
        blocks = [masked(torch, models.Block(width, heads, causal=name == "gpt2"), length) for _ in range(2 * stages)]
        first = torch.randn(8, length, width, device="cuda")
    return [torch.nn.Sequential(*blocks[2 * s : 2 * s + 2]).cuda() for s in range(stages)], first


class Step:
    """Runs the tasks of a step; stamps each with events."""

    def __init__(self, torch, modules, first, streams, tasks):
        self.torch, self.modules, self.first, self.streams, self.tasks = torch, modules, first, streams, tasks

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def forward(self, stage, value):
        value = value.detach().requires_grad_()
        return value, self.modules[stage](value)

    def run(self):
        """(times of the tasks, us; host time to submit, us)"""
        torch, made, stamps = self.torch, {}, []
        torch.cuda.synchronize()
        base = self.event()
        base.record(self.streams[0])
        for stream in self.streams[1:]:
            stream.wait_event(base)
        began = time.perf_counter()
        for task in self.tasks:
            stream = self.streams[task.stage]
            for other in task.after:
                if self.tasks[other].stage != task.stage:
                    stream.wait_event(stamps[other][1])
            start, end = self.event(), self.event()
            with torch.cuda.stream(stream):
                start.record(stream)
                if task.kind == "forward":
                    value = made["out", task.stage - 1, task.batch] if task.stage else self.first
                    given, out = self.forward(task.stage, value)
                    made["in", task.stage, task.batch], made["out", task.stage, task.batch] = given, out
                else:
                    out = made["out", task.stage, task.batch]
                    below = made.get(("in", task.stage + 1, task.batch))
                    out.backward(torch.ones_like(out) if below is None else below.grad)
                end.record(stream)
            stamps.append((start, end))
        host = (time.perf_counter() - began) * 1e6
        torch.cuda.synchronize()  # `made` lives until then: another stream may still read it
        return [(1e3 * base.elapsed_time(a), 1e3 * base.elapsed_time(b)) for a, b in stamps], host


def profile(torch, modules, first, stream, repeats):
    """Length of (kind, stage), us: medians of each alone in the first part."""
    length = {}
    for stage, _ in enumerate(modules):
        times = {"forward": [], "backward": []}
        alone = Step(torch, modules, first, [stream], [])
        for _ in range(repeats + 3):
            stamps = [alone.event() for _ in range(4)]
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                stamps[0].record(stream)
                _, out = alone.forward(stage, first)
                stamps[1].record(stream)
                grad = torch.ones_like(out)
                stamps[2].record(stream)
                out.backward(grad)
                stamps[3].record(stream)
            torch.cuda.synchronize()
            times["forward"].append(1e3 * stamps[0].elapsed_time(stamps[1]))
            times["backward"].append(1e3 * stamps[2].elapsed_time(stamps[3]))
        for kind, samples in times.items():
            length[kind, stage] = statistics.median(samples[3:])  # the first are warm-up
    return length


def gap_between(torch, streams, first, second, repeats=50):
    """From an event in one stream to the next, behind it, in another or the same: the median, us."""
    found = []
    for _ in range(repeats):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        a.record(streams[first])
        if first != second:
            streams[second].wait_event(a)
        b.record(streams[second])
        torch.cuda.synchronize()
        found.append(1e3 * a.elapsed_time(b))
    return statistics.median(found)


def write_csv(path, header, rows):
    with open(path + ".part", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    os.replace(path + ".part", path)


def one_model(name, torch, streams, arguments, profiled):
    """(measured steps, predicted step, host times), us; writes the prediction before a step runs."""
    torch.manual_seed(1)
    modules, first = build(name, torch, arguments.parts)
    tasks = tasks_of(arguments.parts, arguments.micro_batches)
    length = profile(torch, modules, first, streams[0], arguments.repeats)
    profiled += [(name, kind, stage, f"{us:.3f}") for (kind, stage), us in sorted(length.items())]
    gaps = gap_between(torch, streams, 0, 0), gap_between(torch, streams, 0, 1)
    guess = predicted(tasks, length, *gaps)
    header = ("kind", "stage", "batch", "start_us", "end_us")

    def rows(times):
        return [(t.kind, t.stage, t.batch, f"{a:.3f}", f"{b:.3f}") for t, (a, b) in zip(tasks, times)]

    write_csv(os.path.join(arguments.out, f"{name}.prediction.csv"), header, rows(guess))
    step, measured, host = Step(torch, modules, first, streams, tasks), [], []
    for repeat in range(arguments.repeats + 3):
        times, submitted = step.run()
        if repeat < 3:
            continue
        measured.append(step_of(times))
        host.append(submitted)
    write_csv(os.path.join(arguments.out, f"{name}.timeline.csv"), header, rows(times))
    return measured, step_of(guess), host


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0], description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--models", default=",".join(MODELS))
    for flag, value in (("parts", 4), ("sms", 24), ("micro-batches", 4), ("repeats", 20)):
        parser.add_argument(f"--{flag}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=120)
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    for name in names:
        if name not in MODELS:
            parser.error(f"--models: '{name}' is none of {', '.join(MODELS)}")
    for flag in ("parts", "sms", "micro_batches", "repeats"):
        if getattr(arguments, flag) < 1:
            parser.error(f"--{flag.replace('_', '-')}: at least 1")
    try:
        import torch
    except ImportError as error:
        skip(f"no PyTorch: {error}")
    if int(torch.__version__.split(".")[0]) < 2:
        skip(f"PyTorch {torch.__version__}; 2 is needed")
    if not torch.cuda.is_available():
        skip("no usable NVIDIA GPU")
    try:
        from cuda.bindings import driver
    except ImportError as error:
        skip(f"no cuda-bindings: {error}")

    began, status, profiled, rows = time.monotonic(), 0, [], []
    os.makedirs(arguments.out, exist_ok=True)
    streams, sms = parts_of(driver, torch, arguments.parts, arguments.sms)
    with open(os.path.join(arguments.out, "machine.txt"), "w") as file:
        file.write(f"gpu {torch.cuda.get_device_name(0)}\ntorch {torch.__version__}\ncuda {torch.version.cuda}\n"
                   f"parts {' '.join(map(str, sms))}\n")
    for name in names:
        if time.monotonic() - began > arguments.seconds:
            print(f"{name}: no time left", file=sys.stderr)
            status = 1
            continue
        try:
            measured, guess, host = one_model(name, torch, streams, arguments, profiled)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        median, submitted = statistics.median(measured), statistics.median(host)
        rows.append((name, len(measured), f"{median:.1f}", f"{guess:.1f}", f"{guess / median - 1:.4f}",
                     f"{submitted:.1f}", "yes" if submitted > 0.8 * median else "no"))
        print(f"{name}: measured {median:.1f} us, predicted {guess:.1f} us, error {100 * (guess / median - 1):+.2f} %")
        write_csv(os.path.join(arguments.out, "tasks.csv"), ("model", "kind", "stage", "us"), profiled)
        write_csv(os.path.join(arguments.out, "steps.csv"), ("model", "repeats", "measured_us", "predicted_us", "error",
                                                             "host_us", "host_bound"), rows)
    return status


if __name__ == "__main__":
    sys.exit(main())
