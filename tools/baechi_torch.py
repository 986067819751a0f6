"""Writes a baechi-trace of a PyTorch model without running it and without memory for its weights.

    python3 -m baechi_torch MODULE:FUNCTION --batch 32 [--training] [--optimizer adam] -o t.trace.json.gz
    python3 -m baechi_torch run MODULE:FUNCTION FILE     # tries a device map, or stages, without GPUs

FUNCTION(batch) of the Python module (or file) MODULE returns (model, inputs) or (model, inputs, loss): a
torch.nn.Module, a tuple of its arguments (or a dict of its keywords), and for training a loss function of the model's
output; the default loss is the sum of the output, or the output if it is a scalar. Arguments and outputs may be
tensors in lists, tuples, dicts and dataclasses. Model and tensors are on the device `meta`: shapes without data.
Every op has its work (flops, bytes, dtype), from which `--kind` of baechi computes a time on any device type.

The model runs once. Ops are its layers of torch.nn and the functions of PyTorch that it calls; autograd runs the
backward pass, so that backward ops, their gradients and the tensors kept for them are autograd's.
"""
import argparse
import collections.abc
import contextlib
import copy
import dataclasses
import importlib
import importlib.util
import inspect
import json
import os
import shutil
import subprocess
import sys
import traceback

import torch

from baechi_torch_record import NotTraced, OldKernels, Op, Recorder, as_on_a_gpu, of_user, running
from baechi_torch_work import size_of, tensors_of

# Per parameter: words of state, operations and words moved by an update; as in baechi's generators.
OPTIMIZERS = {"none": None, "sgd": (0, 2, 3), "momentum": (1, 4, 5), "adam": (2, 11, 7), "rmsprop": (2, 10, 7)}


@contextlib.contextmanager
def without_memory():
    """Modules created in this context have parameters and buffers on the device `meta`."""
    if hasattr(torch, "device") and hasattr(torch.device("meta"), "__enter__"):  # torch >= 2.0
        with contextlib.suppress(ImportError):
            importlib.import_module("torch._dynamo")  # computes when it is imported, so not on meta
        with torch.device("meta"):
            yield
        return
    register_parameter, register_buffer = torch.nn.Module.register_parameter, torch.nn.Module.register_buffer

    def parameter(module, name, value):
        if value is not None and value.device.type != "meta" and not hasattr(value, "cls_to_become"):
            value = torch.nn.Parameter(value.to("meta"), value.requires_grad)
        register_parameter(module, name, value)

    def buffer(module, name, value, persistent=True):
        register_buffer(module, name, None if value is None else value.to("meta"), persistent)

    torch.nn.Module.register_parameter, torch.nn.Module.register_buffer = parameter, buffer
    try:
        with OldKernels():
            yield
    finally:
        torch.nn.Module.register_parameter, torch.nn.Module.register_buffer = register_parameter, register_buffer


def default_loss(out):
    """The default loss."""
    parts = [t.abs() if t.is_complex() else t for t in tensors_of(out) if t.is_floating_point() or t.is_complex()]
    if not parts:
        raise NotTraced("the output has no floating-point tensor: return (model, inputs, loss) with a loss of the output")
    return sum(t.float().sum() for t in parts)


def on_meta(value):
    """`value` with its tensors on the device `meta`, in lists, tuples, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(on_meta, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(on_meta, value))
    if isinstance(value, collections.abc.MutableMapping):
        new = copy.copy(value)
        for key in value:
            new[key] = on_meta(value[key])
        return new
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        new = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(new, field.name, on_meta(getattr(value, field.name)))
        return new
    return value


def arguments_of(inputs):
    """Positional and named arguments of the model."""
    if isinstance(inputs, collections.abc.Mapping):
        return (), on_meta(dict(inputs))
    return on_meta(tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def not_compiled(model):
    """Modules of torch.compile run as they are."""
    for module in model.modules():
        if hasattr(module, "_orig_mod"):
            module.__dict__["forward"] = module._orig_mod
        module.__dict__.pop("_compiled_call_impl", None)
    if hasattr(torch, "compiler") and hasattr(torch.compiler, "set_stance"):  # functions, too (torch >= 2.6)
        return torch.compiler.set_stance("force_eager")
    return contextlib.nullcontext()


def record(model, inputs, training, loss):
    """The recorder of a run of the model."""
    args, kwargs = arguments_of(inputs)
    model.to("meta").train(training)
    device = torch.device("meta") if hasattr(torch.device, "__enter__") else contextlib.nullcontext()
    with not_compiled(model), torch.set_grad_enabled(training):
        if any(getattr(p, "cls_to_become", None) for p in model.parameters()):  # lazy modules
            with device:
                model(*args, **kwargs)
        recorder = Recorder(model, training)
        try:
            names = list(inspect.signature(model.forward).bind(*args, **kwargs).arguments.items())
        except (TypeError, ValueError):
            names = [("input", [args, kwargs])]
        for name, value in names:
            for tensor in tensors_of(value):
                recorder.input(name, tensor)
        with device, running(recorder):
            out = model(*args, **kwargs)
            if training:
                recorder.claim(tensors_of(out))
                recorder.modules.append("")
                result = recorder.call(loss, Op("loss", "Loss", ""), (out,), {})
                recorder.differentiate(result.sum() if result.dim() else result)
    return recorder


@contextlib.contextmanager
def in_a_sentence(way_out):
    """Errors of the user's code as NotTraced."""
    try:
        yield
    except NotTraced:
        raise
    except Exception as why:
        text = (str(why).strip() or type(why).__name__).splitlines()[0].rstrip(".")
        raise NotTraced(f"{of_user(traceback.extract_tb(why.__traceback__))}{type(why).__name__}: {text}; {way_out}") from why


class Writer:
    """Writes forward, backward and update ops to a trace."""

    def __init__(self, capture, optimizer):
        self.weights, self.reached = capture.weights, capture.reached
        self.state, self.update_flops, self.update_words = OPTIMIZERS[optimizer] or (0, 0, 0)
        self.updates = OPTIMIZERS[optimizer] is not None
        self.ops, self.edges, self.controls = [], [], []
        self.owner = {}  # weight -> op that holds it
        ops = self.with_holders(capture)
        self.unread = self.find_owners(ops)
        for op in ops:
            self.add_forward(op)
        if capture.training:
            self.add_backward([op for op in capture.ops if op.backward is not None])

    @staticmethod
    def with_holders(capture):
        """The ops, with one before the first reader of each weight that a module passes to an inner one, such as learned queries."""
        ops, holders = [], {}
        for op in capture.ops:
            for weight in [w for w in op.weights if capture.passed(w, op)]:
                if weight not in holders:
                    holders[weight] = Op(capture.unique(weight), "Weight", weight.rpartition(".")[0])
                    holders[weight].weights, holders[weight].outputs = [weight], [size_of(capture.weights[weight])]
                    ops.append(holders[weight])
                op.passed.append(weight)
                op.sources.append((holders[weight], 0))
            ops.append(op)
        return ops

    def find_owners(self, ops):
        """The first reader of a weight holds it; one that nobody reads is held by the first op of its module, or near it."""
        for op in ops:
            for weight in op.weights:
                self.owner.setdefault(weight, op.name)
        unread = [w for w in self.weights if w not in self.owner]
        for weight in unread:
            path = weight.rpartition(".")[0]
            while path and not any(op.module == path or op.module.startswith(path + ".") for op in ops):
                path = path.rpartition(".")[0]
            near = [op for op in ops if not path or op.module == path or op.module.startswith(path + ".")]
            holder = next((op for op in near if op.kind != "Input"), None)
            if holder is not None:
                holder.weights.append(weight)
                self.owner[weight] = holder.name
        return [w for w in unread if isinstance(self.weights[w], torch.nn.Parameter)]

    def bytes_of(self, names):
        return sum(size_of(self.weights[n]) for n in names)

    def labels(self, op):
        labels = [op.name] if op.weights or op.backward is not None else []
        labels += [self.owner[w] for w in op.beside if w in self.owner]
        return labels + [self.owner[w] for w in op.weights if self.owner[w] != op.name and w not in op.passed and
                         isinstance(self.weights[w], torch.nn.Parameter)]  # buffers, such as masks, may be copied

    def add(self, name, op, phase, kernels, outputs, persistent):
        entry = {"name": name, "kind": op.kind + ("Backward" if phase == "backward" else ""), "phase": phase}
        if phase == "backward":
            entry["forward"] = op.name
        if op.module:
            entry["module"] = op.module
        entry.update(compute_us=0, persistent_bytes=int(persistent), kernels=kernels)
        labels = self.labels(op)
        if labels:
            entry["colocation"] = labels
        entry["outputs"] = [{"bytes": int(b), **({"reference": True} if op.kind == "Weight" else {})} for b in outputs]
        self.ops.append(entry)
        return entry

    def add_forward(self, op):
        op.held = [w for w in op.weights if self.owner[w] == op.name]
        outputs = op.outputs + ([sum(op.rest.values())] if op.rest else [])
        self.add(op.name, op, "forward", op.kernels, outputs, self.bytes_of(op.held))
        for source, output in op.sources:
            self.edges.append({"from": source.name, "output": output, "to": op.name})

    def add_backward(self, ops):
        arriving = {}  # id of an op -> [(backward op, output)], gradients of its outputs
        running = {id(op) for op in ops}
        self.trained = {}  # id of an op -> trained weights whose gradients its backward op holds
        by_name, readers = {op.name: op for op in ops}, {w: op for op in reversed(ops) for w in op.trained}
        for weight, maker in self.reached.items():  # its first reader may be in no_grad()
            holder = by_name.get(self.owner[weight]) or readers.get(weight) or maker
            self.trained.setdefault(id(holder), []).append(weight)
        for op in reversed(ops):
            name, outputs, arrived = op.name + "_grad", [], arriving.get(id(op), [])
            for to in op.reaches:
                if id(to) not in running:
                    continue
                for _, output in [(s, o) for s, o in op.sources if s is to] or [(to, 0)] * bool(to.outputs):
                    arriving.setdefault(id(to), []).append((name, len(outputs)))
                    outputs.append(to.outputs[output])
            self.add(name, op, "backward", op.backward, outputs, self.bytes_of(self.trained.get(id(op), [])))
            for maker, output in arrived:
                self.edges.append({"from": maker, "output": output, "to": name})
            for source, output in op.kept:
                self.edges.append({"from": source.name, "output": len(source.outputs) if output is None else output, "to": name})
            if not arrived:  # the loss
                self.controls.append({"from": op.name, "to": name})
        if self.updates:
            self.add_updates(ops)

    def add_updates(self, ops):
        readers = {}
        for op in ops:
            for weight in op.trained:
                readers.setdefault(weight, []).append(op.name + "_grad")
        for op in reversed(ops):
            trained = self.trained.get(id(op))
            if not trained:
                continue
            count = sum(self.weights[w].numel() for w in trained)
            size = self.bytes_of(trained)
            update = Op(op.name, "Update", op.module)
            update.weights = op.weights
            kernel = {"flops": self.update_flops * count, "traffic_bytes": self.update_words * size}
            self.add(op.name + "_update", update, "update", [kernel], [], self.state * size)
            for name in dict.fromkeys([op.name + "_grad"] + [r for w in trained for r in readers.get(w, [])]):
                self.controls.append({"from": name, "to": op.name + "_update"})

    def differences(self):
        """Sentences about weights that the user may not expect."""
        lines = []
        if self.unread:
            lines.append(f"no op reads {listed(self.unread)}; they take memory")
        trained = [n for n, w in self.weights.items() if isinstance(w, torch.nn.Parameter) and w.requires_grad]
        missing = [n for n in trained if n not in self.reached]
        if missing:
            lines.append(f"the loss does not reach {listed(missing)}: no gradients, no optimizer state")
        held = sum(op["persistent_bytes"] for op in self.ops if op["phase"] == "backward")
        if held != self.bytes_of(self.reached):
            lines.append(f"{held} bytes of gradients, but {self.bytes_of(self.reached)} of {listed(list(self.reached))}")
        return lines


def listed(names):
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def trace(function, batch=1, training=False, optimizer="adam", name=""):
    """The trace of `function(batch)` as a dict, and facts: parameters, multiply-adds, notes."""
    with as_on_a_gpu():
        with without_memory(), in_a_sentence("it must return a model and its inputs, made on the device meta"):
            model, inputs, *loss = function(batch)
        with in_a_sentence("the model must run on these inputs; one that cannot run without data can be recorded while it "
                           "runs (traces/README.md, PyTorch)"):
            recorder = record(model, inputs, training, loss[0] if loss else default_loss)
    writer = Writer(recorder, optimizer)
    facts = {"parameters": sum(p.numel() for p in model.parameters()), "multiply_adds": sum(op.products[0] for op in recorder.ops) // 2,
             "backward_products": sum(op.products[1] for op in recorder.ops),
             "notes": list(recorder.notes) + (writer.differences() if training else [])}
    return {"format": "baechi-trace", "version": 1, "name": name or f"{type(model).__name__}-b{batch}",
            "source": f"PyTorch {torch.__version__}", "batch": batch, "ops": writer.ops,
            "edges": writer.edges, "controls": writer.controls}, facts


def split(model, args, kwargs, path):
    """The model in the stages of a file of `baechi place --export pipelining`; NotTraced if PyTorch cannot."""
    with in_a_sentence("PyTorch 2.5 or later splits models; this is " + torch.__version__):
        from torch.distributed import pipelining
    with open(path, encoding="utf-8") as file, in_a_sentence("it is no file of baechi place --export pipelining"):
        stages = json.load(file)
        stages = {key: stages[key] for key in ("stages", "split_spec")}
    with in_a_sentence(f"PyTorch {torch.__version__} cannot split the model at {', '.join(stages['split_spec'])}. Neither the "
                       "model nor a module that begins a stage may be a Sequential, and the first argument of a forward must be called self"):
        pipe = pipelining.pipeline(model, args, kwargs, {name: pipelining.SplitPoint.BEGINNING for name in stages["split_spec"]})
    if pipe.num_stages != stages["stages"]:
        raise NotTraced(f"{stages['stages']} stages, but PyTorch makes {pipe.num_stages}: it cuts at each call of a module")
    if pipe.replicated_params:
        raise NotTraced(f"stages share {listed(sorted({n for p in pipe.replicated_params for n in p.values()}))}")
    return pipe


def try_split(function, batch, path):
    """Splits the model on meta tensors."""
    with without_memory(), in_a_sentence("it must return a model and its inputs, made on the device meta"):
        model, inputs, *_ = function(batch)
        args, kwargs = arguments_of(inputs)
        model.to("meta")
    split(model, args, kwargs, path)


def write(document, path):
    """Writes atomically; compresses if the name ends in .gz or .zst."""
    text = json.dumps(document).encode()
    if path.endswith(".gz"):
        import gzip
        text = gzip.compress(text, mtime=0)
    elif path.endswith(".zst"):
        if shutil.which("zstd") is None:
            raise NotTraced(f"{path}: the program zstd is not there to compress it: install it, or write .json or .json.gz")
        text = subprocess.run(["zstd", "-q", "-c"], input=text, stdout=subprocess.PIPE, check=True).stdout
    with open(path + ".part", "wb") as file:
        file.write(text)
    os.replace(path + ".part", path)


def find_function(text):
    module, _, name = text.partition(":")
    if not name:
        sys.exit(f"{text}: not MODULE:FUNCTION, such as my_models:resnet")
    sys.path.insert(0, os.getcwd())
    if module.endswith(".py"):
        spec = importlib.util.spec_from_file_location("model_file", module)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
    else:
        loaded = importlib.import_module(module)
    if not hasattr(loaded, name):
        sys.exit(f"{text}: {module} has no function '{name}'")
    return getattr(loaded, name)


def main():
    if sys.argv[1:2] == ["run"]:
        from baechi_torch_map import main as run
        return run(sys.argv[2:], find_function, split)
    parser = argparse.ArgumentParser(prog="baechi_torch", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--training", action="store_true", help="add backward and update ops")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adam", help="[adam]")
    parser.add_argument("--split", metavar="STAGES.json", help="make no trace, but split the model with PyTorch (2.5 or later) as "
                        "this file of baechi place --export pipelining says")
    parser.add_argument("-o", "--output", help="the trace file, compressed if it ends in .gz or .zst")
    arguments = parser.parse_args()
    if (arguments.output is None) == (arguments.split is None):
        parser.error("-o FILE for a trace, or --split STAGES.json")
    try:
        with as_on_a_gpu(), in_a_sentence("MODULE:FUNCTION is a Python file, or a module that Python finds, and its function"):
            function = find_function(arguments.function)
        if arguments.split:
            try_split(function, arguments.batch, arguments.split)
            return print(f"{arguments.split}: PyTorch {torch.__version__} can split the model so", file=sys.stderr)
        document, facts = trace(function, arguments.batch, arguments.training, arguments.optimizer)
        write(document, arguments.output)
    except (NotTraced, OSError) as why:
        sys.exit(f"{arguments.split or arguments.function}: {why}")
    print(f"{arguments.output}: {len(document['ops'])} ops, {facts['parameters']} parameters, "
          f"{facts['multiply_adds'] / 1e9:.3f} GMACs in the forward pass", file=sys.stderr)
    for note in facts["notes"]:
        print(note, file=sys.stderr)


if __name__ == "__main__":
    main()
