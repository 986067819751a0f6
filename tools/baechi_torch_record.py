"""Runs a PyTorch model on meta tensors and records its ops: what each reads, writes and keeps for its backward pass.

Autograd itself runs the backward pass. Its kernels belong to the op whose node of the autograd graph launched them, and what
they read is what the forward pass had to keep: a saved tensor, the input of a checkpoint, a field of an autograd.Function.
"""
import contextlib
import os
import re
import sys
import traceback

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from baechi_torch_work import (FREE, attention_flops, bytes_read, flops_of, is_product, is_view, kernel_of, mapped, size_of,
                               storage_of, tensors_of)

# Functions that torch.autocast runs in its dtype, and those that it runs in fp32 (PyTorch's documentation, "CUDA Ops").
LOWER = {"matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "addmv", "mv", "linear", "bilinear", "einsum", "tensordot", "prelu",
         "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "rnn_tanh", "rnn_relu",
         "lstm", "gru", "lstm_cell", "gru_cell", "scaled_dot_product_attention"}
HIGHER = {"softmax", "log_softmax", "layer_norm", "group_norm", "instance_norm", "norm", "cross_entropy_loss", "nll_loss",
          "nll_loss_nd", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div", "exp", "log", "pow", "rsqrt", "sum", "prod",
          "cumsum", "softplus", "cosine_similarity", "binary_cross_entropy_with_logits"}
FACTORIES = {"empty", "zeros", "ones", "full", "arange", "linspace", "logspace", "eye", "rand", "randn", "randint", "randperm",
             "tensor", "as_tensor", "scalar_tensor", "empty_strided", "tril_indices", "triu_indices", "hann_window"}
CLASSES = {name.lower(): name for name in dir(torch.nn) if name[0].isupper()}
BY_VALUE = ("the model looks at values, and tensors have only shapes here: compute on all of them, use torch.cond, or record the "
            "model while it runs (traces/README.md, PyTorch)")


class NotTraced(Exception):
    """The model cannot be traced; the message says why and what to do."""


def of_user(frames):
    """"FILE:LINE: " of the innermost frame outside PyTorch and this tool."""
    inside = os.path.dirname(torch.__file__), "<"
    lines = [f for f in frames if not f.filename.startswith(inside) and "baechi_torch" not in os.path.basename(f.filename) and
             "runpy" not in f.filename and "contextlib" not in f.filename]
    return f"{lines[-1].filename}:{lines[-1].lineno}: " if lines else ""


def kind_of(function):
    """One word per function: its module in torch.nn if there is one, else its name without marks of operators."""
    word = str(getattr(function, "__name__", function)).split(".")[0].strip("_")
    word = re.sub("^[ri](add|sub|mul|truediv|floordiv|pow|matmul|and|or)$", r"\1", word).replace("truediv", "div")
    return CLASSES.get(word.replace("_", ""), word)


class Op:
    def __init__(self, name, kind, module):
        self.name, self.kind, self.module = name, kind, module
        self.outputs, self.sources = [], []  # bytes; (op, output) that it reads, without duplicates
        self.weights, self.trained = [], []  # names of parameters and buffers; of trained ones
        self.passed = []  # names of weights that reach it as arguments of its module
        self.beside = []  # names of weights on whose device it must be, and which it does not read
        self.kernels, self.backward = [], None  # of the forward pass; of the backward pass, or None
        self.kept, self.rest = [], {}  # (op, output) that its backward op reads; storage -> bytes of internal ones that are read
        self.reaches, self.products = [], [0, 0]  # ops to which gradients go; flops of matmuls and the like, of each pass


class Made:
    """The last write of a storage."""

    def __init__(self, op, size):
        self.op, self.size, self.output = op, size, None

    def as_output(self):
        if self.output is None:
            self.output = len(self.op.outputs)
            self.op.outputs.append(self.size)
        return self.op, self.output


class Attention(torch.autograd.Function):
    """One kernel, as flash and memory-efficient attention; it keeps its inputs, its output and a logsumexp per row."""

    @staticmethod
    def forward(ctx, recorder, query, key, value, mask):
        shape = torch.broadcast_shapes(query.shape[:-2], value.shape[:-2]) if query.dim() == value.dim() and \
            query.shape[-3:-2] == value.shape[-3:-2] else query.shape[:-2]
        ctx.recorder, ctx.flops = recorder, attention_flops(query, key, value)
        out = query.new_empty((*shape, query.shape[-2], value.shape[-1]))
        rows = query.new_empty((*shape, query.shape[-2]), dtype=torch.float32)
        read = [query, key, value] + ([mask] if mask is not None else [])
        recorder.record("attention", read, [out, rows], ctx.flops, product=True)
        ctx.save_for_backward(*read, out, rows)
        return out

    @staticmethod
    def backward(ctx, gradient):
        read = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        written = [torch.empty_like(t) if n else None for t, n in zip(read[:-2] + (None,) * (6 - len(read)), needed)]
        # recomputed scores, and two matmuls for the gradients of each product
        ctx.recorder.record("attention", [*read, gradient], [w for w in written if w is not None], 5 * ctx.flops // 2,
                            product=True)
        return (None, *written)


class Recorder:
    """The ops of a model while it runs; `ops` in their order."""

    def __init__(self, model, training):
        self.model, self.training = model, training
        self.ops, self.notes = [], {}  # notes: a dict as an ordered set
        self.made, self.alive = {}, {}  # storage -> Made; -> its object, so that ids are unique
        self.op, self.opened_by, self.in_backward, self.pending = None, None, False, []
        self.module_names = {id(m): n for n, m in model.named_modules()}
        self.modules, self.names = [""], {}
        self.op_of, self.nodes = {}, []  # id of a node of autograd -> op; nodes, so that ids are unique
        self.reached = {}  # trained parameter that gets a gradient -> op whose backward pass makes it, or None
        self.among, self.share = {}, {}  # storage of indices -> their number; storage of a mask -> share that is true
        self.devices = {}  # id of the `device` of a tensor -> (that object, the tensor's storage)
        self.chosen = set()  # storages of indices 0, 1, ...: those of a mask that is true everywhere
        self.weights, self.weights_of = {}, {}  # name -> tensor; storage -> names
        for name, weight in list(model.named_parameters()) + list(model.named_buffers()):
            self.weights[name] = weight
            self.weights_of.setdefault(self.keep(weight), []).append(name)
        self.modules_of = {}  # storage of a weight -> modules that have it as their own
        for name, module in model.named_modules():
            for weight in (*module._parameters.values(), *module._buffers.values()):
                if weight is not None:
                    self.modules_of.setdefault(self.keep(weight), set()).add(name)

    def passed(self, weight, op):
        """Whether the module of `weight` passes it to the inner module that runs `op`: a framework moves it there."""
        own = self.modules_of[self.keep(self.weights[weight])]
        return all(op.module != name and op.module.startswith(name and name + ".") for name in own)

    def keep(self, tensor):
        memory = storage_of(tensor)
        if memory not in self.alive:
            self.alive[memory] = tensor if memory < 0 else (
                tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage())
        return memory

    def is_trained(self, name):
        return self.training and isinstance(self.weights[name], torch.nn.Parameter) and self.weights[name].requires_grad

    def unique(self, name):
        name = name.replace(".", "_")
        self.names[name] = self.names.get(name, -1) + 1
        return f"{name}_{self.names[name]}" if self.names[name] else name

    def note(self, text):
        self.notes[of_user(traceback.extract_stack()) + text] = None

    # Ops

    def input(self, name, tensor):
        op = Op(self.unique(name), "Input", "")
        self.made[self.keep(tensor)] = Made(op, size_of(tensor))
        self.made[storage_of(tensor)].as_output()
        self.ops.append(op)

    def claim(self, tensors):
        """Nodes behind tensors that views left without an op go to the op that made their memory."""
        for tensor in tensors:
            node = tensor.grad_fn
            made = self.made.get(storage_of(tensor)) if node is not None and id(node) not in self.op_of else None
            if made is not None:
                self.walk(node, made.op)

    def walk(self, node, op):
        todo = [node]
        while todo:
            node = todo.pop()
            if node is None or id(node) in self.op_of or hasattr(node, "variable"):
                continue
            self.op_of[id(node)] = op
            self.nodes.append(node)
            node.register_hook(lambda *_: self.flush(op))
            todo += [following for following, _ in node.next_functions]

    def open(self, op, given):
        self.op = op
        if self.training:
            self.claim(tensors_of(given))

    def close(self, result):
        op, self.op = self.op, None
        results = tensors_of(result)
        for tensor in results:
            made = self.made.get(storage_of(tensor))
            if made is not None and made.op is op:
                made.as_output()
        if not op.kernels:
            return
        for tensor in results:
            if self.training and tensor.grad_fn is not None:
                self.walk(tensor.grad_fn, op)
        if not op.name:
            op.name = self.unique(op.kind.lower())
        self.ops.append(op)

    def call(self, function, op, args, kwargs):
        """function(*args, **kwargs) as one op, unless it is part of one."""
        if self.op is not None or self.in_backward:
            return function(*args, **kwargs)
        self.open(op, [args, kwargs])
        result = function(*args, **kwargs)
        self.close(result)
        return result

    def on_the_device(self, device, op):
        """A tensor that `op` makes on `device` must be where the tensor is of which the device was asked: op reads it, or
        is with the holder of that weight."""
        memory = self.devices.get(id(device), (None, None))[1]
        if memory is None or self.op is not None or self.in_backward:
            return op
        op.beside = self.weights_of.get(memory, [])
        made = self.made.get(memory)
        if made is not None and not op.beside:
            op.sources.append(made.as_output())
        return op

    def record(self, name, read, written, flops=None, traffic=None, product=False):
        traffic = sum(map(size_of, read)) + sum(map(size_of, written)) if traffic is None else traffic
        kernel = kernel_of(flops, traffic, [t for t in written if t is not None])
        if not flops and not traffic:
            return
        if self.in_backward:
            self.pending.append((kernel, flops * product, [self.keep(t) for t in read], written))
            return
        alone = self.op is None
        if alone:
            self.op = Op("", kind_of(name), self.modules[-1])
        op = self.op
        op.kernels.append(kernel)
        op.products[0] += flops * product
        for tensor in read:
            memory = self.keep(tensor)
            made = self.made.get(memory)
            if memory in self.weights_of:
                for weight in self.weights_of[memory]:
                    if weight not in op.weights:
                        op.weights.append(weight)
                        op.trained += [weight] if self.is_trained(weight) else []
            elif made is not None and made.op is not op and made.as_output() not in op.sources:
                op.sources.append(made.as_output())
        for tensor in written:
            memory = self.keep(tensor)
            if memory not in self.weights_of and (memory not in self.made or self.made[memory].op is not op):
                self.made[memory] = Made(op, size_of(tensor))
        if alone:
            self.close(written)

    # The backward pass

    def flush(self, op):
        """A node of `op` has run: what was launched since the last one is its work."""
        if op.backward is None:
            op.backward = []
        for kernel, products, read, _ in self.pending:
            op.backward.append(kernel)
            op.products[1] += products
            for memory in read:
                made = self.made.get(memory)
                if made is None or memory in self.weights_of:
                    continue
                if made.output is not None and made.as_output() not in op.kept:
                    op.kept.append(made.as_output())
                elif made.output is None:
                    made.op.rest[memory] = made.size
                    if (made.op, None) not in op.kept:
                        op.kept.append((made.op, None))
        self.pending = []
        for name, maker in self.reached.items():
            if maker is None:
                self.reached[name] = op

    def differentiate(self, loss):
        for name, weight in self.weights.items():
            if self.is_trained(name):
                weight.register_hook(lambda gradient, n=name: self.reached.setdefault(n))
        self.in_backward = True
        if loss.requires_grad:
            self.claim([loss])
            torch.autograd.backward([loss], [torch.empty_like(loss)])  # loss.backward() would suspend the modes
            if self.pending:
                self.flush(next(op for op in reversed(self.ops) if op.backward is not None))
        for node in self.nodes:
            op = self.op_of[id(node)]
            for following, _ in node.next_functions:
                to = self.op_of.get(id(following))
                if to is not None and to is not op and to not in op.reaches:
                    op.reaches.append(to)


class Functions(TorchFunctionMode):
    """Makes an op of every function of PyTorch that the model calls."""
    idle = False

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        recorder, kwargs = self.recorder, dict(kwargs or {})
        word = str(getattr(func, "__name__", "")).strip("_")
        if self.idle or word in ("get", "set", "size", "dim", "delete"):
            value = func(*args, **kwargs)
            if isinstance(value, torch.device):
                recorder.devices[id(value)] = value, recorder.keep(args[0])
            return value
        op = recorder.on_the_device(kwargs.get("device"), Op("", kind_of(func), recorder.modules[-1]))
        if word in ("cuda", "cpu"):
            return args[0]
        if word in ("bool", "item", "tolist", "numpy", "int", "float", "index", "len") and isinstance(args[0], torch.Tensor) \
                and args[0].device.type == "meta" and getattr(func, "__name__", "") not in ("bool", "int", "float", "__len__"):
            if word in ("index", "item", "int") and storage_of(args[0]) in recorder.chosen:
                return args[0].storage_offset()
            raise NotTraced(f"{of_user(traceback.extract_stack())}{word} of a tensor: {BY_VALUE}")
        if word == "to":
            args = (args[0], *("meta" if isinstance(a, (str, torch.device)) else a for a in args[1:]))
        if kwargs.get("device") is not None or (word in FACTORIES and "device" not in kwargs):
            kwargs["device"] = "meta"
        args, kwargs = self.cast(word, args, kwargs)
        if word == "one_hot" and (len(args) > 1 or kwargs.get("num_classes", -1) > 0):
            return self.one_hot(*args, **kwargs)
        if word == "scaled_dot_product_attention" and not (func.__name__[0] == "_" and (kwargs.get("need_attn_weights") or args[5:])):
            result = recorder.call(self.attention, Op("", word, recorder.modules[-1]), args, kwargs)
            return (result, None) if func.__name__[0] == "_" else result
        return recorder.call(func, op, args, kwargs)

    def attention(self, query, key, value, attn_mask=None, *rest, **named):
        return Attention.apply(self.recorder, query, key, value, attn_mask)

    def one_hot(self, tensor, num_classes):
        def run(tensor):
            out = torch.empty((*tensor.shape, num_classes), dtype=torch.long, device="meta")
            self.recorder.record("one_hot", [tensor], [out], out.numel())
            self.recorder.share[self.recorder.keep(out)] = 1 / num_classes
            return out
        return self.recorder.call(run, Op("", "one_hot", self.recorder.modules[-1]), (tensor,), {})

    @staticmethod
    def cast(word, args, kwargs):
        """Arguments as torch.autocast casts them on the device of its block; it does nothing for meta tensors."""
        if torch.is_autocast_enabled():
            dtype = torch.get_autocast_gpu_dtype()
        elif torch.is_autocast_cpu_enabled():
            dtype = torch.get_autocast_cpu_dtype()
        else:
            return args, kwargs
        word = "matmul" if word == "rmatmul" else word
        if word not in LOWER and word not in HIGHER:
            return args, kwargs
        to = dtype if word in LOWER else torch.float32

        def convert(value):
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype in (to, torch.float64):
                return value
            return value.to(to)
        return mapped(tuple(args), convert), mapped(kwargs, convert)


def run_on_meta(func, args, kwargs):
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError, TypeError) as why:
        if not isinstance(why, (NotImplementedError, TypeError)) and "eta" not in str(why):
            raise
    # This version cannot run it on meta tensors: known shapes, shapes by decomposition, else by running it on zeros.
    if func is torch.ops.aten.convolution_backward.default:  # hours on zeros where the model is large
        of_bias = args[0].new_empty(args[3] or args[2].shape[:1])
        return tuple(torch.empty_like(t) if asked else None for t, asked in zip((args[1], args[2], of_bias), args[10]))
    with replaced((Functions, "idle", True)), torch._C.DisableTorchFunction():
        from torch import _decomp
        if func in _decomp.decomposition_table:
            with contextlib.suppress(Exception):
                return _decomp.decomposition_table[func](*args, **kwargs)
        given = tensors_of([list(args), kwargs])
        if sum(map(size_of, given)) > 1 << 32:
            raise NotTraced(f"{of_user(traceback.extract_stack())}this version of PyTorch cannot run {func} on meta tensors")
        low = next((t.dtype for t in given if t.dtype in (torch.float16, torch.bfloat16)), None)  # a CPU may lack its kernels
        zeros = {id(t): torch.zeros(t.shape, dtype=torch.float32 if t.dtype is low else t.dtype, device="cpu") for t in given}
        same = {id(zeros[id(t)]): t for t in given}

        def real(value):
            if isinstance(value, torch.device):
                return torch.device("cpu")
            return zeros[id(value)] if isinstance(value, torch.Tensor) else value

        def meta(value):
            if not isinstance(value, torch.Tensor):
                return value
            dtype = low if low and value.dtype is torch.float32 else value.dtype
            return same[id(value)] if id(value) in same else value.to("meta", dtype)
        return mapped(func(*mapped(tuple(args), real), **mapped(kwargs, real)), meta)


class OldKernels(TorchDispatchMode):
    """Runs kernels that older versions cannot run on meta tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run_on_meta(func, args, kwargs or {})


class Kernels(TorchDispatchMode):
    """Records every kernel."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder, self.on_meta = recorder, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[-1]
        kwargs = dict(kwargs or {})
        if torch.is_inference_mode_enabled():  # composite functions arrive whole
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        if name in ("_local_scalar_dense", "is_nonzero", "equal") and tensors_of(args)[0].device.type == "meta":
            raise NotTraced(f"{of_user(traceback.extract_stack())}{BY_VALUE}")
        if any(t.device.type != "meta" and t.dim() for t in tensors_of([args, kwargs])):
            args, kwargs = (mapped(a, self.moved) for a in (tuple(args), kwargs))
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("meta")
        outputs = self.rows(func, name, args) if name in ("nonzero", "masked_select") else None
        if name in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"):
            args = (args[0], self.without_masks(args[1], args[0]), *args[2:])
        if outputs is None:
            outputs = run_on_meta(func, args, kwargs)
        if name in FREE or is_view(func):
            return outputs
        read = tensors_of([list(args), kwargs])
        mutated = [a for a, s in zip(args, func._schema.arguments) if s.alias_info is not None and s.alias_info.is_write]
        written = tensors_of(outputs) or tensors_of(mutated)
        if not written:
            return outputs
        self.remember(name, args, written)
        flops = int(flops_of(name, args, written))
        traffic = int(bytes_read(name, args, kwargs, written) + sum(map(size_of, written)))
        self.recorder.record(name, read, written, flops, traffic, is_product(name))
        return outputs

    def moved(self, value):
        if not isinstance(value, torch.Tensor) or value.device.type == "meta" or not value.dim():
            return value
        self.on_meta.setdefault(id(value), (value, value.detach().to("meta")))
        return self.on_meta[id(value)][1]

    # Routing: how many rows a mask selects

    def count(self, mask):
        share = self.recorder.share.get(storage_of(mask))
        rows = mask.numel() if share is None else max(1, round(share * mask.numel()))
        self.recorder.note(f"which elements of a mask are true is not known: taken to be {'all ' if share is None else ''}{rows}" + (
            "" if share is None else f" of {mask.numel()}, as if choices were spread evenly"))
        return rows

    def rows(self, func, name, args):
        if name == "masked_select":
            return args[0].new_empty((self.count(args[1]),))
        found = torch.empty((self.count(args[0]), args[0].dim()), dtype=torch.long, device="meta")
        if args[0].dim() == 1 and found.shape[0] == args[0].numel():
            self.recorder.chosen.add(self.recorder.keep(found))
        return found

    def without_masks(self, indices, data):
        new = []
        for index in indices:
            if index is not None and index.dtype in (torch.bool, torch.uint8):
                rows = self.count(index)
                new += [torch.empty((rows,), dtype=torch.long, device="meta") for _ in range(index.dim())]
            else:
                new.append(index)
        return new

    def remember(self, name, args, written):
        among, share = self.recorder.among, self.recorder.share
        source = storage_of(args[0]) if args and isinstance(args[0], torch.Tensor) else None
        memory = self.recorder.keep(written[-1])
        if name in ("topk", "max", "argmax", "argmin", "min", "argsort", "sort", "multinomial") and args[0].dim():
            place = {"topk": 2, "multinomial": 9}.get(name, 1)
            dim = args[place] if len(args) > place and isinstance(args[place], int) else -1
            among[memory] = args[0].shape[dim]
        elif name in ("eq", "ne") and source in among:
            share[memory] = 1 / among[source] if name == "eq" else 1 - 1 / among[source]
        elif name in ("scatter", "scatter_") and len(args) > 2 and isinstance(args[2], torch.Tensor):
            share[memory] = min(1.0, args[2].numel() / max(1, args[0].numel()))
        elif name in ("any", "sum") and source in share and args[0].numel():
            share[memory] = min(1.0, share[source] * args[0].numel() / max(1, written[-1].numel()))
        elif name in ("clone", "_to_copy", "copy_", "gt", "ne", "index", "index_select", "cat"):
            for table in (among, share):
                first = next((storage_of(t) for t in tensors_of(list(args))[::-1] if storage_of(t) in table), None)
                if first is not None and name != "index" or source in table:
                    table[memory] = table[source if source in table else first]


def one_op(module):
    """Layers of torch.nn without layers inside are one op."""
    return type(module).__module__.startswith("torch.nn.") and next(module.children(), None) is None


@contextlib.contextmanager
def replaced(*changes):
    """Attributes replaced while the context lasts: (owner, name, value); an owner that lacks the name stays."""
    old = []
    for owner, name, value in changes:
        if hasattr(owner, name):
            old.append((owner, name, vars(owner).get(name, replaced)))
            setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(old):
            delattr(owner, name) if value is replaced else setattr(owner, name, value)


def as_on_a_gpu():
    """torch.autocast("cuda") is not switched off where there is no GPU."""
    return replaced((torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
                    (torch.cuda, "is_bf16_supported", lambda *_, **__: True))


def never(*_):
    return False


@contextlib.contextmanager
def running(recorder):
    """In this context calls of modules and functions become ops of the recorder."""
    functions = Functions(recorder)
    base = torch.autograd.Function
    apply = base.apply.__func__ if "apply" in vars(base) else None

    def apply_as_op(cls, *args, **kwargs):
        bound = apply.__get__(cls) if apply else super(base, cls).apply
        if cls is Attention or cls.__module__ == "torch.utils.checkpoint":
            return bound(*args, **kwargs)
        return recorder.call(bound, Op("", cls.__name__, recorder.modules[-1]), args, kwargs)

    def cond(pred, true_fn, false_fn, operands=()):
        start, branches = len(recorder.ops), []
        for branch in (true_fn, false_fn):
            result = branch(*operands)
            ops, recorder.ops[start:] = recorder.ops[start:], []
            branches.append(([sum(k[what] for op in ops for k in op.kernels) for what in ("flops", "traffic_bytes")], ops, result))
        dearer = max(branches, key=lambda branch: branch[0])
        recorder.note("of torch.cond the dearer branch is taken")
        recorder.ops += dearer[1]
        return dearer[2]

    def flex_attention(query, key, value, *rest):
        def run(*inputs):
            return Attention.apply(recorder, *inputs, None)
        out = recorder.call(run, Op("", "flex_attention", recorder.modules[-1]), (query, key, value), {})
        return out, out.new_empty(out.shape[:-1], dtype=torch.float32)

    def enter(module, inputs):
        recorder.modules.append(recorder.module_names.get(id(module), recorder.modules[-1]))
        if recorder.op is None and not recorder.in_backward and one_op(module):
            recorder.opened_by = module
            recorder.open(Op(recorder.unique(recorder.modules[-1] or type(module).__name__.lower()), type(module).__name__,
                             recorder.modules[-1]), inputs)

    def leave(module, inputs, output):
        recorder.modules.pop()
        if recorder.opened_by is module:
            recorder.opened_by = None
            recorder.close(output)

    changes = [(F, name, never) for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")]
    changes += [(base, "apply", classmethod(apply_as_op)), (torch, "cond", cond),
                (torch.utils.checkpoint, "_infer_device_type", lambda *_: "cuda"), (torch, "compile", lambda model=None, **_: model if model is not None else lambda function: function),
                (torch.nn.modules.transformer, "_detect_is_causal_mask", lambda mask, is_causal=None, size=None: bool(is_causal))]
    for module, name, value in (("torch._higher_order_ops.cond", "cond_op", cond),
                                ("torch.nn.attention.flex_attention", "_validate_device", never),
                                ("torch.nn.attention.flex_attention", "flex_attention_hop", flex_attention)):
        if module in sys.modules:
            changes.append((sys.modules[module], name, value))
    hooks = torch.nn.modules.module
    handles = [hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave)]
    try:
        with replaced(*changes), Kernels(recorder), functions:
            yield
    finally:
        for handle in handles:
            handle.remove()
