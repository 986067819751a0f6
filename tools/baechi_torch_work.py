"""Work of PyTorch's operators by formula."""
import collections.abc
import dataclasses

import torch

# Calls that make views or allocate memory without computing.
FREE = {"_unsafe_view", "_reshape_alias", "empty", "empty_like", "empty_strided", "new_empty", "is_same_size", "scalar_tensor",
        "detach", "lift_fresh", "lift_fresh_copy", "sym_size", "sym_numel", "sym_stride"}
# Calls that read some rows of their first tensor, and the index of the argument that selects them.
ROWS = {"embedding": 1, "_embedding_bag": 1, "index_select": 2, "gather": 2, "index": 1}
MATMULS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "_int_mm": (0, 1), "mv": (0, 1)}


def tensors_of(value):
    """All tensors in nested lists, tuples, dicts and dataclasses, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, collections.abc.Mapping):
        value = list(value.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in tensors_of(item)]
    return []


def mapped(value, change):
    """`value` with `change` applied to what its lists, tuples, dicts and slices hold."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(v, change) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(v, change) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(mapped(value.start, change), mapped(value.stop, change), mapped(value.step, change))
    return change(value)


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


def storage_of(tensor):
    """An id that is equal for tensors that share memory."""
    try:
        return (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage())._cdata
    except NotImplementedError:  # a tensor of torch.vmap
        return -id(tensor)


def is_view(func):
    returns = func._schema.returns
    alias = returns[0].alias_info if len(returns) > 0 else None
    return alias is not None and not alias.is_write


def attention_flops(query, key, value):
    *batch, length, features = query.shape
    n = 1
    for b in batch:
        n *= b
    return 2 * n * length * key.shape[-2] * (features + value.shape[-1])


def flops_of(name, args, outputs):
    """Flops: 2 per multiply-add of the textbook algorithm for matmuls and convolutions, without biases, as in published
    counts; one per element of the largest tensor for other calls."""
    if name in MATMULS:
        a, b = (args[i] for i in MATMULS[name])
        columns = b.shape[-1] if b.dim() > 1 else 1
        return 2 * a.numel() * columns
    if name == "convolution":
        data, weight, transposed = args[0], args[1], args[6]
        positions = data if transposed else outputs[0]
        return 2 * positions.numel() * (weight.numel() // weight.shape[0])
    if name == "convolution_backward":
        gradient, data, weight, transposed, mask = args[0], args[1], args[2], args[7], args[10]
        positions = data if transposed else gradient
        return 2 * (int(mask[0]) + int(mask[1])) * positions.numel() * (weight.numel() // weight.shape[0])
    if name.startswith("_scaled_dot_product"):
        if "backward" in name:  # recomputed scores, and gradients of two matmuls
            return 5 * attention_flops(args[1], args[2], args[3]) // 2
        return attention_flops(args[0], args[1], args[2])
    if name == "_embedding_bag":  # sums rows
        return args[1].numel() * args[0].shape[1]
    if name in ("embedding", "index", "index_select", "gather", "clone", "copy_", "cat", "stack", "_to_copy", "fill_", "zero_"):
        return 0  # moves data
    return max([t.numel() for t in tensors_of(list(args)) + outputs] or [0])


def bytes_read(name, args, kwargs, outputs):
    """Bytes of all arguments; of a table only the rows that are read (as many as are written or, in a bag, summed)."""
    if name not in ROWS:
        return sum(size_of(t) for t in tensors_of(list(args)) + tensors_of(kwargs))
    rows = size_of(outputs[0])
    if name == "_embedding_bag":
        rows = args[1].numel() * size_of(args[0]) // args[0].shape[0]
    return rows + sum(size_of(t) for t in tensors_of(list(args[1:])))


def precision_name(value):
    """The precision of a dtype in a trace."""
    return {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(value, "fp32")


def is_product(name):
    """Whether published counts include the kernel: matmuls, convolutions and attention."""
    return (name in MATMULS and name != "mv") or name.startswith(("convolution", "_scaled_dot_product"))


def kernel_of(flops, traffic, written):
    """The kernel as a trace states it."""
    kernel = {"flops": flops, "traffic_bytes": traffic}
    precision = precision_name(written[0].dtype) if written else "fp32"
    if precision != "fp32":
        kernel["precision"] = precision
    return kernel
