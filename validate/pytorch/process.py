"""What every process of an evaluation does first, and the parts of a model that it runs."""
import gc
import importlib.util
import os
import sys
import time

import torch
from torch import nn

now = time.perf_counter  # one clock for all processes of a machine
os.environ.setdefault("USE_LIBUV", "0")  # Debian's PyTorch has none
ON_GPU = os.environ.get("EVALUATION_DEVICE") == "cuda"  # as --device says; a machine may have a GPU that is not asked for
CORES = sorted(os.sched_getaffinity(0))  # before settle() leaves one of them


def untimed(processes, device="cpu"):
    """Why steps of so many processes at once tell no times on this machine; empty if they do. Their peaks of memory are the same."""
    if processes > len(CORES):
        return f"{processes} processes have {len(CORES)} core{'s' if len(CORES) > 1 else ''}"
    if device == "cuda" and processes > torch.cuda.device_count() and not os.path.exists(f"{mps_folder()}/control"):
        return f"{processes} processes have {torch.cuda.device_count()} GPU, and no nvidia-cuda-mps-control divides it"
    return ""


def share_of_gpu(processes):
    """How many per cent of a GPU's multiprocessors each of so many processes has: of the fullest GPU an equal part."""
    return 100 // -(-processes // max(1, torch.cuda.device_count()))


def mps_folder():
    return os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")


def settle(core, processes=2):
    """One thread on one core, ahead of other programs where that is allowed. Processes that share cores are left to the scheduler."""
    torch.set_num_threads(1)
    gc.disable()  # a collection in a step would be noise
    if ON_GPU:
        torch.cuda.set_device(core % torch.cuda.device_count())
    if processes > len(CORES):
        return
    os.sched_setaffinity(0, {CORES[core % len(CORES)]})
    try:
        os.nice(-20 - os.nice(0))
        with open("/proc/self/autogroup", "w") as file:  # else niceness counts among the programs of one terminal
            file.write("-20")
    except OSError:  # not root, or no such groups
        pass


class Ahead:
    """`with Ahead():` around calls of the backend. A call may hold the lock of a connection, for which gloo's event thread spins."""

    possible = False

    def __enter__(self):
        if Ahead.possible:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    def __exit__(self, *_):
        if Ahead.possible:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def finish():
    """Waits until a GPU has done what it was given."""
    if ON_GPU:
        torch.cuda.synchronize()


def put_backend_ahead(processes=2):
    """The threads of the backend run ahead of the one that computes, and take turns. All share a core, and each spins where
    another one holds what it needs: the event thread for the lock of a connection, a worker for the end of an event. The
    spinner would take the core from the one that it waits for, 1 to 4 ms each time. Threads of one real-time priority do not. Where
    processes share cores, such threads would keep the other processes from computing."""
    if processes > len(CORES):
        return
    try:
        for thread in map(int, os.listdir("/proc/self/task")):
            if thread != os.getpid():
                os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))
        Ahead.possible = True
    except OSError:  # not root
        pass


def models_of(path):
    """The module MODELS.py."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("evaluated_models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors_of(item)] if isinstance(value, (tuple, list)) else []


def rebuilt(value, tensors):
    """`value` with the tensors of the iterator in place of its own."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    return type(value)(rebuilt(item, tensors) for item in value) if isinstance(value, (tuple, list)) else value


def loss_of(result):
    return sum(t.square().mean() for t in tensors_of(result) if t.is_floating_point())


class Layers(nn.Module):
    """Layers one after the other. Frames tell the profiler which layer runs, if asked for."""

    def __init__(self, layers, frames=False):
        super().__init__()
        self.layers, self.frames = nn.ModuleList(layers), frames

    def forward(self, x, first=0, end=None):
        for i, layer in list(enumerate(self.layers))[first:end]:
            if self.frames:
                with torch.profiler.record_function(f"layers.{i}"):
                    x = layer(x)
            else:
                x = layer(x)
        return x


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, foreach=False)


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def started_ns(event):
    return event.start_ns() if hasattr(event, "start_ns") else 1000 * event.start_us()


def live_bytes():
    """Bytes of all tensors that Python can reach, each storage once."""
    gc.collect()
    found = {}
    for thing in gc.get_objects():
        try:
            if isinstance(thing, torch.Tensor) and thing.device.type != "meta":
                storage = storage_of(thing)
                found[storage.data_ptr()] = storage.nbytes()
        except Exception:  # some objects cannot be looked at
            pass
    return sum(found.values())


def peak_of(step, optimizer, device="cpu"):
    """The most bytes of tensors at once while `step` runs: those before it, and the profiler's events of memory. A step runs before it,
    because the profiler does not see the end of what it did not see begin; that step's gradients are dropped."""
    if optimizer:
        optimizer.zero_grad(set_to_none=True)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        step()
        before, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()  # 32 MiB a handle on Hopper: no tensors
        return peak - (before - torch.cuda.memory_allocated())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
        if optimizer:
            optimizer.zero_grad(set_to_none=True)
        before = live_bytes()
        begin = time.time_ns()  # the profiler's clock
        step()
    live = most = 0
    events = recorded.profiler.kineto_results.events()
    events = [e for e in events if e.name() == "[memory]" and started_ns(e) >= begin // 1000 * 1000]
    for event in sorted(events, key=started_ns):
        live += event.nbytes()
        most = max(most, live)
    return before + most
