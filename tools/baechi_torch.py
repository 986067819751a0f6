"""Writes a baechi-trace of a PyTorch model without running it and without memory for its weights.

    python3 -m baechi_torch MODULE:FUNCTION --batch 32 [--training] [--optimizer adam] -o t.trace.json.zst
    python3 -m baechi_torch run MODULE:FUNCTION MAP      # tries a device map without GPUs

FUNCTION(batch) of the Python module (or file) MODULE returns (model, inputs) or (model, inputs, loss): a
torch.nn.Module, a tuple of example tensors, and for training a loss function of the model's output; the default loss
is the sum of the output, or the output if it is a scalar. Both are created on the device `meta`: shapes without data.
Every op has its work (flops, bytes, dtype), from which `--kind` of baechi computes a time on any device type.

Ops are those of torch.export (torch >= 2.2) if it supports the model, else those of torch.fx. Each op is then
differentiated separately: the kernels that autograd runs and the tensors that it saves become its backward op.
"""
import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import traceback

import torch
import torch.fx

from baechi_torch_work import Meter, size_of, storage_of, tensors_of

# Per parameter: words of state, operations and words moved by an update; as in baechi's generators.
OPTIMIZERS = {"none": None, "sgd": (0, 2, 3), "momentum": (1, 4, 5), "adam": (2, 11, 7), "rmsprop": (2, 10, 7)}


@contextlib.contextmanager
def without_memory():
    """Modules created in this context have parameters and buffers on the device `meta`."""
    if hasattr(torch, "device") and hasattr(torch.device("meta"), "__enter__"):  # torch >= 2.0
        with torch.device("meta"):
            yield
        return
    register_parameter, register_buffer = torch.nn.Module.register_parameter, torch.nn.Module.register_buffer

    def parameter(module, name, value):
        if value is not None and value.device.type != "meta":
            value = torch.nn.Parameter(value.to("meta"), value.requires_grad)
        register_parameter(module, name, value)

    def buffer(module, name, value, persistent=True):
        register_buffer(module, name, None if value is None else value.to("meta"), persistent)

    torch.nn.Module.register_parameter, torch.nn.Module.register_buffer = parameter, buffer
    try:
        yield
    finally:
        torch.nn.Module.register_parameter, torch.nn.Module.register_buffer = register_parameter, register_buffer


def default_loss(out):
    """The default loss."""
    return sum(t.float().sum() for t in tensors_of(out) if t.is_floating_point())


class Tracer(torch.fx.Tracer):
    """Records the module of each node, and traces into modules with submodules."""

    def __init__(self):
        super().__init__()
        self.modules = [""]

    def call_module(self, module, forward, args, kwargs):
        self.modules.append(self.path_of_module(module))
        try:
            return super().call_module(module, forward, args, kwargs)
        finally:
            self.modules.pop()

    def create_node(self, *args, **kwargs):
        node = super().create_node(*args, **kwargs)
        node.module = self.modules[-1]
        return node


def graph_of(model, inputs):
    """A torch.fx.GraphModule of the model; `module` of each node is the path of its module."""
    if hasattr(torch, "export") and hasattr(torch.export, "export"):
        try:
            module = torch.export.export(model, tuple(inputs)).module()
            for node in module.graph.nodes:
                stack = list((node.meta.get("nn_module_stack") or {}).values())
                path = stack[-1][0] if stack else ""
                node.module = path[7:] if path.startswith("L__self__") else path
            return module, "torch.export"
        except Exception as why:  # the message of torch.export is printed
            print(f"torch.export does not support the model ({str(why).splitlines()[0]}): using torch.fx", file=sys.stderr)
    tracer = Tracer()
    try:
        return torch.fx.GraphModule(model, tracer.trace(model)), "torch.fx"
    except Exception as why:
        raise NotTraced(f"torch.fx does not support the model: {line_of(why)}{why}. Sizes of inputs (x.shape[1]) cannot "
                        "be sizes of new tensors there: write them as numbers, create the tensor in __init__, or use "
                        "torch 2.2 or later. A model with data-dependent control flow can be recorded while it runs "
                        "(traces/README.md, PyTorch)") from why


class NotTraced(Exception):
    """The model cannot be traced; the message says why and what to do."""


def line_of(why):
    """"FILE:LINE: " of the innermost frame outside PyTorch."""
    inside = os.path.dirname(torch.__file__)
    lines = [f for f in traceback.extract_tb(why.__traceback__)
             if not f.filename.startswith((inside, __file__, "<"))]
    return f"{lines[-1].filename}:{lines[-1].lineno}: " if lines else ""


class Op:
    def __init__(self, name, kind, module):
        self.name, self.kind, self.module = name, kind, module
        self.outputs, self.sources = [], []  # bytes; (op, output) that it reads, without duplicates
        self.weights, self.trained = [], []  # names of parameters and buffers; of trained ones
        self.kernels, self.backward = [], None  # of the forward pass; of the backward pass, or None
        self.kept = []  # (op, output) that its backward op reads
        self.differentiable = False


def safe_grad(outputs, inputs):
    return torch.autograd.grad(outputs, inputs, [torch.empty_like(o) for o in outputs], allow_unused=True)


class Capture(torch.fx.Interpreter):
    """Runs the graph on meta tensors, and creates an op for every node that computes."""

    def __init__(self, module, training):
        super().__init__(module, garbage_collect_values=False)
        self.training = training
        self.ops, self.source, self.multiply_adds, self.by_formula = [], {}, 0, 0
        self.alive = []  # keeps objects alive, so that ids are unique
        self.name_of = {}  # storage of a weight -> its first name
        for name, weight in list(module.named_parameters()) + list(module.named_buffers()):
            self.name_of.setdefault(storage_of(weight), name)
        self.weights = {self.name_of[storage_of(w)]: w for w in list(module.parameters()) + list(module.buffers())}

    def placeholder(self, target, args, kwargs):
        value = super().placeholder(target, args, kwargs)
        op = Op(target, "Input", "")
        self.give(op, tensors_of(value))
        self.ops.append(op)
        return value

    def give(self, op, tensors):
        for tensor in tensors:
            self.alive.append(tensor)
            self.source[id(tensor)] = (op, len(op.outputs))
            op.outputs.append(size_of(tensor))

    def run_node(self, node):
        if node.op in ("placeholder", "output", "get_attr"):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        module = self.fetch_attr(node.target) if node.op == "call_module" else None
        if module is not None:
            module.train(self.training)
        if module is not None:
            call = module
        elif node.op == "call_method":
            def call(first, *rest, **named):
                return getattr(first, node.target)(*rest, **named)
        else:
            call = node.target
        return self.compute(Op(node.name, self.kind_of(node, module), node.module), call, module, args, kwargs)

    def compute(self, op, call, module, args, kwargs):
        """Returns the result of `call`; adds `op` to the ops if it runs a kernel."""
        given = tensors_of([args, kwargs])
        self.find_weights(op, given, module)
        op.differentiable = self.training and (
            bool(op.trained) or any(s[0].differentiable for s in op.sources))
        result = self.metered(op, call, module, args, kwargs)
        written = tensors_of(result)
        if op.kernels:
            self.give(op, written)
            self.ops.append(op)
        else:  # a view or a Python value
            for tensor in written:
                source = next((self.source[id(t)] for t in given if id(t) in self.source), None)
                self.alive.append(tensor)
                if source is not None:
                    self.source[id(tensor)] = source
        return result

    @staticmethod
    def kind_of(node, module):
        if module is not None:
            return type(module).__name__
        return str(getattr(node.target, "__name__", node.target)).split(".")[0]

    def find_weights(self, op, given, module):
        used = given + (list(module.parameters()) + list(module.buffers()) if module is not None else [])
        for tensor in used:
            if id(tensor) in self.source:
                if self.source[id(tensor)] not in op.sources:
                    op.sources.append(self.source[id(tensor)])
                continue
            name = self.name_of.get(storage_of(tensor))
            if name is None or name in op.weights:
                continue
            op.weights.append(name)
            if isinstance(self.weights[name], torch.nn.Parameter) and self.weights[name].requires_grad:
                op.trained.append(name)

    def metered(self, op, call, module, args, kwargs):
        """Runs `call`; records the kernels of both passes and the saved tensors."""
        leaves, swapped = [], {}

        def own(tensor):
            if id(tensor) not in swapped:
                new = tensor.detach()
                source = self.source.get(id(tensor))
                wanted = source[0].differentiable if source else tensor.requires_grad
                if op.differentiable and wanted and new.is_floating_point():
                    leaves.append(new.requires_grad_())
                    new = new.clone()  # may be written in place
                swapped[id(tensor)] = (new, source, tensor)
            return swapped[id(tensor)][0]

        args, kwargs = (torch.fx.node.map_aggregate(a, lambda v: own(v) if isinstance(v, torch.Tensor) else v)
                        for a in (args, kwargs))
        if module is not None:
            leaves += [p for p in module.parameters() if p.requires_grad] if op.differentiable else []
        meter, saved = Meter(), []
        keep = torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t)
        try:
            with torch.enable_grad() if op.differentiable else torch.no_grad(), keep, meter:
                result = call(*args, **kwargs)
        except NotImplementedError as why:
            if op.kind != "Loss":
                raise NotTraced(f"{op.name}{' of ' + op.module if op.module else ''}: {line_of(why)}this version of PyTorch "
                                f"cannot run it on meta tensors: {str(why).split('.')[0]}") from why
            return self.loss_by_formula(op)
        op.kernels = meter.kernels
        self.multiply_adds += meter.multiply_adds
        outputs = [t for t in tensors_of(result) if t.requires_grad]
        if op.kernels and outputs and leaves:
            op.backward = self.backward_kernels(outputs, leaves, op)
            self.keep(op, saved, swapped.values(), tensors_of(result))
        return torch.fx.node.map_aggregate(result, lambda v: v.detach() if isinstance(v, torch.Tensor) else v)

    def loss_by_formula(self, op):
        """A memory-bound kernel over the loss's inputs, and another for their gradients."""
        self.by_formula += 1
        read = sum(source.outputs[output] for source, output in op.sources)
        op.kernels = [{"flops": read // 4, "traffic_bytes": read}]
        if op.differentiable:
            op.backward, op.kept, op.rest = [{"flops": read // 4, "traffic_bytes": 2 * read}], list(op.sources), 0
        return torch.empty((), device="meta")

    def backward_kernels(self, outputs, leaves, op):
        meter = Meter()
        try:
            with meter:
                safe_grad(outputs, leaves)
            return meter.kernels
        except (NotImplementedError, RuntimeError):  # older versions cannot run all of it on meta tensors
            self.by_formula += 1
            operands = int(any(s[0].differentiable for s in op.sources)) + int(bool(op.trained))
            return [dict(k, flops=operands * k["flops"], traffic_bytes=2 * k["traffic_bytes"]) for k in op.kernels]

    def keep(self, op, saved, given, results):
        """Classifies saved tensors by storage: inputs, results, weights; the rest are masks and statistics."""
        sources = {storage_of(new): source for new, source, _ in given if source is not None}
        made = {storage_of(t): i for i, t in enumerate(results)}
        seen, rest = set(), 0
        for tensor in saved:
            memory = storage_of(tensor)
            if memory in seen or memory in self.name_of:
                continue
            seen.add(memory)
            if memory in made:
                op.kept.append((op, made[memory]))
            elif memory in sources:
                op.kept.append(sources[memory])
            else:
                rest += size_of(tensor)
        op.rest = rest


class Writer:
    """Writes forward, backward and update ops to a trace."""

    def __init__(self, capture, optimizer):
        self.weights = capture.weights
        self.state, self.update_flops, self.update_words = OPTIMIZERS[optimizer] or (0, 0, 0)
        self.updates = OPTIMIZERS[optimizer] is not None
        self.ops, self.edges, self.controls = [], [], []
        self.owner = {}  # weight -> op that holds it
        for op in capture.ops:
            self.add_forward(op)
        if capture.training:
            self.add_backward([op for op in capture.ops if op.backward is not None])

    def bytes_of(self, names):
        return sum(size_of(self.weights[n]) for n in names)

    def labels(self, op):
        labels = [op.name] if op.weights or op.backward is not None else []
        return labels + [self.owner[w] for w in op.weights if self.owner[w] != op.name and
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
        entry["outputs"] = [{"bytes": int(b)} for b in outputs]
        self.ops.append(entry)
        return entry

    def add_forward(self, op):
        held = [w for w in op.weights if w not in self.owner]
        for weight in held:
            self.owner[weight] = op.name
        op.held = held
        outputs = op.outputs + ([op.rest] if getattr(op, "rest", 0) else [])
        self.add(op.name, op, "forward", op.kernels, outputs, self.bytes_of(held))
        for source, output in op.sources:
            self.edges.append({"from": source.name, "output": output, "to": op.name})

    def add_backward(self, ops):
        gradients = {}  # op -> [(backward op, output)], gradients of its outputs
        reached = {id(op) for op in ops[-1:]}
        done = []
        for op in reversed(ops):
            if id(op) not in reached:
                continue
            name, kernels, outputs = op.name + "_grad", list(op.backward), []
            arriving = gradients.get(id(op), [])
            for _ in arriving[op.outputs and len(set(op.outputs)) or 1:]:
                kernels.append({"flops": op.outputs[0] // 4, "traffic_bytes": 3 * op.outputs[0]})
            for source, output in dict.fromkeys(op.sources):
                if source.differentiable and source.backward is not None:
                    gradients.setdefault(id(source), []).append((name, len(outputs)))
                    outputs.append(source.outputs[output])
                    reached.add(id(source))
            trained = [w for w in op.trained if w in op.held]
            self.add(name, op, "backward", kernels, outputs, self.bytes_of(trained))
            for maker, output in arriving:
                self.edges.append({"from": maker, "output": output, "to": name})
            for source, output in dict.fromkeys(op.kept):
                self.edges.append({"from": source.name, "output": output, "to": name})
            if getattr(op, "rest", 0):
                self.edges.append({"from": op.name, "output": len(op.outputs), "to": name})
            if not arriving:  # the loss
                self.controls.append({"from": op.name, "to": name})
            done.append(op)
        if self.updates:
            self.add_updates(done)

    def add_updates(self, done):
        readers = {}
        for op in done:
            for weight in op.trained:
                readers.setdefault(self.owner[weight], []).append(op.name + "_grad")
        for op in reversed(done):
            trained = [w for w in op.trained if w in op.held]
            if not trained:
                continue
            count = sum(self.weights[w].numel() for w in trained)
            size = self.bytes_of(trained)
            update = Op(op.name, "Update", op.module)
            update.weights = op.weights
            kernel = {"flops": self.update_flops * count, "traffic_bytes": self.update_words * size}
            self.add(op.name + "_update", update, "update", [kernel], [], self.state * size)
            for name in dict.fromkeys(readers[op.name]):
                self.controls.append({"from": name, "to": op.name + "_update"})


def trace(function, batch=1, training=False, optimizer="adam", name=""):
    """The trace of `function(batch)` as a dict, and facts: parameters, multiply-adds, notes."""
    with without_memory():
        model, inputs, *loss = function(batch)
    inputs = tuple(t.to("meta") for t in (inputs if isinstance(inputs, (tuple, list)) else (inputs,)))
    model.to("meta").train(training)
    module, how = graph_of(model, inputs)
    capture = Capture(module, training)
    out = capture.run(*inputs)
    if training:
        loss = loss[0] if loss else default_loss
        capture.compute(Op("loss", "Loss", ""), lambda *outputs: loss(*outputs), None, (out,), {})
    writer = Writer(capture, optimizer)
    facts = {"parameters": sum(p.numel() for p in model.parameters()), "multiply_adds": capture.multiply_adds,
             "how": how, "by_formula": capture.by_formula}
    return {"format": "baechi-trace", "version": 1, "name": name or f"{type(model).__name__}-b{batch}",
            "source": f"PyTorch {torch.__version__}, {how}", "batch": batch, "ops": writer.ops,
            "edges": writer.edges, "controls": writer.controls}, facts


def write(document, path):
    """Writes atomically; compresses if the name ends in .gz or .zst."""
    text = json.dumps(document).encode()
    if path.endswith(".gz"):
        import gzip
        text = gzip.compress(text, mtime=0)
    elif path.endswith(".zst"):
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
        from baechi_torch_run import main as run
        return run(sys.argv[2:], find_function)
    parser = argparse.ArgumentParser(prog="baechi_torch", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", metavar="MODULE:FUNCTION")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--training", action="store_true", help="add backward and update ops")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adam", help="[adam]")
    parser.add_argument("-o", "--output", required=True, help="the trace file, compressed if it ends in .gz or .zst")
    arguments = parser.parse_args()
    try:
        document, facts = trace(find_function(arguments.function), arguments.batch, arguments.training,
                                arguments.optimizer)
    except NotTraced as why:
        sys.exit(f"{arguments.function}: {why}")
    write(document, arguments.output)
    print(f"{arguments.output}: {len(document['ops'])} ops by {facts['how']}, {facts['parameters']} parameters, "
          f"{facts['multiply_adds'] / 1e9:.3f} GMACs in the forward pass", file=sys.stderr)
    if facts["by_formula"]:
        print(f"{facts['by_formula']} ops by formula: this version of PyTorch cannot run them on meta tensors",
              file=sys.stderr)


if __name__ == "__main__":
    main()
