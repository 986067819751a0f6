"""PyTorch models placed in one call, and the program's verbs as functions; `import baechi` has them, too."""
import copy
import csv
import json
import os
import shutil
import subprocess
import tempfile


def graph_of(model, inputs, training=False, optimizer="adam", loss=None):
    """The graph of a torch.nn.Module on example inputs. Neither runs; the model's weights are not copied."""
    import torch

    import baechi
    import baechi_torch

    memo = {}
    for tensor in list(model.parameters()) + list(model.buffers()):
        without_data = tensor.detach().to("meta")
        if isinstance(tensor, torch.nn.Parameter):
            without_data = torch.nn.Parameter(without_data, tensor.requires_grad)
        memo[id(tensor)] = without_data
    twin = copy.deepcopy(model, memo)
    made = (twin, inputs) if loss is None else (twin, inputs, loss)
    document, _ = baechi_torch.trace(lambda batch: made, training=training, optimizer=optimizer,
                                     name=type(model).__name__)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        baechi_torch.write(document, path)
        return baechi.read(path)


def device_map(model, inputs, max_memory=None, no_split_module_classes=(), *, kind="", link="pcie4", placer="auto",
               training=False):
    """A device map for accelerate.dispatch_model: module -> GPU.

    >>> baechi.device_map(model, (ids,), max_memory={0: "8GiB", 1: "6GiB"}, no_split_module_classes=["Block"])
    {'embed': 0, 'blocks.0': 0, 'blocks.1': 1, 'head': 1}

    max_memory: bytes or text by number of the GPU, and of "cpu" and "disk", whose weights a GPU copies in each step, as accelerate
    does (a disk reads 3.5 GB/s); without it, nine tenths of each GPU's free memory. `kind`: of all GPUs, or by number ('baechi list
    devices'). Raises baechi.InfeasibleError, which names what is in the way.
    """
    import baechi
    if max_memory is None:
        import torch
        max_memory = {i: int(0.9 * torch.cuda.mem_get_info(i)[0]) for i in range(torch.cuda.device_count())}
    gpus = sorted(key for key in max_memory if isinstance(key, int))
    others = [key for key in max_memory if not isinstance(key, int) and key not in ("cpu", "disk")]
    if not gpus or others:
        raise baechi.InputError(f"max_memory: {f'{others[0]!r} is no device' if others else 'no GPU'}; "
                                "such as {0: '8GiB', 'cpu': '64GiB'}")
    memory = [max_memory[g] for g in gpus]
    devices = dict(kind=kind, devices=len(gpus)) if isinstance(kind, str) else dict(devices=[f"1x{kind[g]}" for g in gpus])
    devices |= dict(cpu_memory=max_memory.get("cpu") or None, disk="3.5 GB/s" if max_memory.get("disk") else "")
    classes = [no_split_module_classes] if isinstance(no_split_module_classes, str) else no_split_module_classes
    whole = [name for name, module in model.named_modules() if type(module).__name__ in classes and name]
    found = baechi.export(graph_of(model, inputs, training), baechi.Cluster(memory=memory, link=link, **devices),
                          "accelerate", placer, no_split=whole)
    return {name: place if isinstance(place, str) else gpus[place] for name, place in found.items()}


def split(model, inputs, stages, *, memory="1 TiB", kind="", link="pcie4", training=False):
    """Stages for torch.distributed.pipelining: a dict with split_spec, modules, schedule and micro_batches."""
    import baechi
    cluster = baechi.Cluster(devices=stages, memory=memory, kind=kind, link=link)
    return baechi.export(graph_of(model, inputs, training), cluster, "pipelining", stages=stages)


def program():
    """The program `baechi`: of this package, or in the path."""
    import baechi
    folder = os.path.dirname(os.path.abspath(baechi.__file__))
    for outer in (folder, os.path.dirname(folder)):
        for path in (os.path.join(outer, "baechi_data", "bin", "baechi"), os.path.join(outer, "baechi")):
            if os.path.isfile(path):
                return path
    found = shutil.which("baechi")
    if not found:
        raise FileNotFoundError("the program 'baechi' is neither in the package nor in the path")
    return found


def answer(verb, *words, **flags):
    """What `baechi VERB WORDS --flag value` prints; `memory_fraction=0.9` is --memory-fraction 0.9."""
    import baechi
    command = [program(), verb, *map(str, words)]
    for key, value in flags.items():
        if value is not None and value is not False:
            command.append("--" + key.replace("_", "-"))
            command += [] if value is True else [str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        raise baechi.InputError(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def file_of(value, folder, name):
    """The path of a graph or placement: one that is saved now, or the value itself."""
    if not hasattr(value, "save"):
        return str(value)
    path = os.path.join(folder, name)
    value.save(path)
    return path


def explain(graph, placement, **flags):
    """`baechi explain`: critical path and idle times, as a dict. Flags are the program's: devices=2, kind="v100"."""
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(answer("explain", file_of(graph, folder, "graph.json"), format="json",
                                 placement=file_of(placement, folder, "placement.json"), **flags))


def plan(*words, **flags):
    """`baechi plan`, as a dict."""
    return json.loads(answer("plan", *words, format="json", **flags))


def frame(rows):
    """A pandas.DataFrame where pandas is installed, else the list of dicts."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def run(*scenarios, output=None, **flags):
    """`baechi run`: one row for each run, as a frame. `output` keeps the results' folder."""
    with tempfile.TemporaryDirectory() as folder:
        output = output or os.path.join(folder, "results")
        command = [str(s) for s in scenarios]
        answer("run", *command, out=output, **flags)
        with open(os.path.join(output, "results.csv"), newline="") as file:
            return frame(list(csv.DictReader(file)))


def compare(*folders, **flags):
    """`baechi compare` of folders of results, as a dict."""
    return json.loads(answer("compare", *folders, format="json", **flags))
