"""Runs a model under a file of `baechi place --export accelerate` or `pipelining` without GPUs.

    python3 -m baechi_torch run MODULE:FUNCTION FILE [--batch 1]

A device map runs as accelerate.dispatch_model would run it. Every tensor carries the number of its device. A module
that is a key gets its inputs moved to its device, and so does the model, to the device of the first key. Any other op
that mixes devices is an error, as in CUDA. Stages are split by torch.distributed.pipelining (PyTorch 2.5 or later), and
run one after another. The output must be that of the whole model.
"""
import argparse
import json
import sys
import traceback

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from baechi_torch_record import NotTraced


class DeviceMapError(NotTraced):
    """The model does not run under the map; the message says at which op."""


def untracked():
    return torch._C.DisableTorchFunction()


class Tracked(torch.Tensor):
    """A tensor with the number of its device."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        given = [t for t in tree_flatten((args, kwargs or {}))[0] if isinstance(t, Tracked)]
        with untracked():  # a number in a tensor may be anywhere
            devices = {t.__dict__["place"] for t in given if "place" in t.__dict__ and t.dim() > 0}
        if len(devices) > 1:
            name = getattr(function, "__name__", str(function))
            raise DeviceMapError(f"{name} has tensors on devices {sorted(devices)}")
        result = super().__torch_function__(function, types, args, kwargs)
        if devices:
            place, = devices
            for tensor in tree_flatten(result)[0]:
                if isinstance(tensor, Tracked):
                    tensor.place = place
        return result


class Devices(TorchFunctionMode):
    """The `device` of a tensor has its number, and tensors made there, or moved there, carry it."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        result = function(*(plain(a) for a in args), **{k: plain(v) for k, v in kwargs.items()})
        if isinstance(result, torch.device):
            return torch.device("cpu", args[0].place) if isinstance(args[0], Tracked) and "place" in vars(args[0]) else result
        given = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.device) and v.index is not None]
        return move(result, given[0].index) if given else result


def plain(value):
    return torch.device("cpu") if isinstance(value, torch.device) else value


def move(value, place):
    def moved(tensor):
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if tensor.__dict__.get("place") == place:
            return tensor
        with untracked():
            copy = tensor.detach().clone().as_subclass(Tracked)  # in-place ops change the copy only
        copy.place = place
        return copy
    return tree_map(moved, value)


def device_of(name, device_map):
    """The value of the longest key that is `name` or encloses it; None if there is none."""
    while name and name not in device_map:
        name = name.rpartition(".")[0]
    return device_map.get(name)


def dispatch(model, device_map):
    """Moves weights, and the inputs of modules. Returns the bytes of weights by device."""
    bytes_on, placed = {}, {}
    for prefix, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for key, tensor in list(table.items()):
                if tensor is None:
                    continue
                name = f"{prefix}.{key}" if prefix else key
                place = device_of(name, device_map)
                if place is None:
                    raise DeviceMapError(f"the map has no device for '{name}'")
                if (id(tensor), place) not in placed:
                    placed[id(tensor), place] = move(tensor.data, place), tensor
                    bytes_on[place] = bytes_on.get(place, 0) + tensor.numel() * tensor.element_size()
                table[key] = placed[id(tensor), place][0]
        if prefix in device_map:
            hook_inputs(module, device_map[prefix])
    if "" not in device_map:
        hook_inputs(model, next(iter(device_map.values())))
    names = {""}
    for prefix, module in model.named_modules():
        names |= {prefix} | {f"{prefix}.{key}" if prefix else key for key in (*module._parameters, *module._buffers)}
    for key in device_map:
        if key not in names:
            raise DeviceMapError(f"the map names '{key}', which the model has not")
    return bytes_on


def hook_inputs(module, place):
    forward = module.forward
    module.forward = lambda *args, **kwargs: forward(*move(args, place), **move(kwargs, place))


def run(function, device_map, batch=1):
    """Runs `function(batch)`'s model; returns bytes of weights by device and the devices of its outputs."""
    model, args, kwargs = made(function, batch)

    def output():
        torch.manual_seed(1)
        return model(*tree_map(clone, args), **tree_map(clone, kwargs))
    with torch.no_grad():
        wanted = output()
        bytes_on = dispatch(model, device_map)
        try:
            with Devices():
                found = output()
        except DeviceMapError as why:
            lines = [f for f in traceback.extract_tb(why.__traceback__)
                     if "/torch/" not in f.filename and f.filename != __file__]
            where = f"{lines[-1].filename}:{lines[-1].lineno}: {lines[-1].line}: " if lines else ""
            raise DeviceMapError(f"{where}{why}") from why
    compare(wanted, found, "without a map: does a module change its input in place?")
    return bytes_on, sorted({t.place for t in tree_flatten(found)[0] if isinstance(t, Tracked) and "place" in vars(t)})


def run_stages(function, path, batch, split):
    """Bytes of weights by stage."""
    model, args, kwargs = made(function, batch)  # with gradients: without, PyTorch has other kernels for whole layers
    wanted = model(*tree_map(clone, args), **tree_map(clone, kwargs))
    pipe = split(model, args, kwargs, path)
    compare(wanted, pipe(*tree_map(clone, args), **tree_map(clone, kwargs)), "that is not split")
    stages = map(pipe.get_stage_module, range(pipe.num_stages))
    return {i: sum(p.numel() * p.element_size() for p in stage.parameters()) for i, stage in enumerate(stages)}


def made(function, batch):
    """The model, its arguments and its keyword arguments."""
    torch.manual_seed(0)
    model, inputs, *_ = function(batch)
    if isinstance(inputs, dict):
        return model.eval(), (), inputs
    return model.eval(), tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,), {}


def compare(wanted, found, other):
    for a, b in zip(tree_flatten(wanted)[0], tree_flatten(found)[0]):
        with untracked():
            if isinstance(a, torch.Tensor) and not torch.allclose(a, b.as_subclass(torch.Tensor), 1e-3, 1e-4, True):
                raise DeviceMapError("the output is not that of the model " + other)


def clone(value):
    return value.clone() if isinstance(value, torch.Tensor) else value


def main(arguments, find_function, split):
    parser = argparse.ArgumentParser(prog="baechi_torch run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("file", metavar="FILE", help="device map (JSON: a module to the number of its device), or stages")
    parser.add_argument("--batch", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        with open(given.file, encoding="utf-8") as file:
            content = json.load(file)
        function = find_function(given.function)
        if content.get("format") == "baechi-pipelining":
            for stage, size in run_stages(function, given.file, given.batch, split).items():
                print(f"stage {stage}: {size / 2**20:.2f} MiB of weights")
            return print("runs; outputs are those of the whole model")
        bytes_on, outputs = run(function, content, given.batch)
    except (NotTraced, OSError, ValueError) as why:
        sys.exit(f"{given.file}: {why}")
    for place, size in sorted(bytes_on.items()):
        print(f"device {place}: {size / 2**20:.2f} MiB of weights")
    print(f"runs; output on {', '.join(map(str, outputs))}")
