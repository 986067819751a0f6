"""What is wrong with a MODELS.py: all of it in plain words, before anything is recorded."""
import os
import traceback

import torch
from torch import nn

from process import loss_of, models_of, rebuilt, tensors_of
from record import shared

FUNCTIONS = ("names", "layers_of", "input_of", "cuts_of", "batch_of")


def said(why, path):
    """An exception in words, with the last line of the file `path` that it went through."""
    lines = [why.lineno] if isinstance(why, SyntaxError) else [f.lineno for f in traceback.extract_tb(why.__traceback__) if f.filename == path]
    text = why.msg if isinstance(why, SyntaxError) else why
    return f"{f'line {lines[-1]}: ' if lines else ''}{type(why).__name__}: {text}"


def loaded(path):
    """The module at `path` and the names of its models, or None and what is wrong."""
    if not os.path.isfile(path) or not path.endswith(".py"):
        return None, [], [f"{path}: no such file of Python (.py)"]
    try:
        models = models_of(path)
        if missing := [f for f in FUNCTIONS if not callable(getattr(models, f, None))]:
            return None, [], [f"{path}: has no function {', '.join(missing)}; validate/pytorch/models.py is an example"]
        names = models.names()
    except (Exception, SystemExit) as why:
        return None, [], [f"{path}: {said(why, path)}"]
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(n, str) and n for n in names):
        return None, [], [f"{path}: names() gives {names!r}, not a list of names"]
    return models, list(names), []


def of_model(models, path, name, device):
    """What is wrong with one model, or nothing. Its layers run on `device`."""
    try:
        return list(in_order(models, path, name, device))
    except (Exception, SystemExit) as why:
        return [f"{path}: {name}: {said(why, path)}"]


def in_order(models, path, name, device):
    layers, batch, cuts = models.layers_of(name), models.batch_of(name), models.cuts_of(name)
    if not isinstance(layers, (list, tuple, nn.Sequential, nn.ModuleList)) or not all(isinstance(layer, nn.Module) for layer in layers):
        yield f"{path}: layers_of({name!r}) gives no list of modules (torch.nn.Module)"
        return
    if len(layers) < 2:
        yield f"{path}: layers_of({name!r}) gives {len(layers)} layer; two stages need two"
        return
    if not isinstance(cuts, (list, tuple)):
        yield f"{path}: cuts_of({name!r}) gives {cuts!r}, not a list of numbers of layers"
    elif outside := [c for c in cuts if not isinstance(c, int) or not 0 < c < len(layers)]:
        where = f"a cut is a number from 1 to {len(layers) - 1}: the layer that the second stage begins with"
        yield f"{path}: cuts_of({name!r}) has {', '.join(map(repr, outside))}; the model has {len(layers)} layers, and {where}"
    else:
        for cut, parameter in sorted(shared(layers).items()):
            if cut in cuts:
                yield f"{path}: cuts_of({name!r}) has {cut}, but layers on both sides share {parameter}: each stage would train its own"
    if not isinstance(batch, int) or batch < 1:
        yield f"{path}: batch_of({name!r}) gives {batch!r}, not a number of samples"
        return
    x = models.input_of(name, batch)
    if not tensors_of(x) or any(t.dim() == 0 or len(t) != batch for t in tensors_of(x)):
        found = ", ".join(str(list(t.shape)) for t in tensors_of(x)) or type(x).__name__
        yield f"{path}: input_of({name!r}, {batch}) gives {found}, not a tensor or a tuple of tensors with {batch} samples each"
        return
    x = rebuilt(x, iter([t.to(device) for t in tensors_of(x)]))
    for i, layer in enumerate(layers):
        given = ", ".join(str(list(t.shape)) for t in tensors_of(x))
        try:
            x = layer.to(device)(x)
        except Exception as why:
            yield f"{path}: {name}, layer {i} ({type(layer).__name__}), which is given {given}: {said(why, path)}"
            return
        try:
            rebuilt(x, iter(tensors_of(x)))
        except Exception:
            yield f"{path}: {name}, layer {i} ({type(layer).__name__}) gives {type(x).__name__}, not a tensor or a tuple of tensors"
            return
        if not tensors_of(x):
            yield f"{path}: {name}, layer {i} ({type(layer).__name__}) gives {type(x).__name__}, not a tensor or a tuple of tensors"
            return
    loss = loss_of(x)
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        yield f"{path}: {name}: nothing to train: no number of the last layer's result comes from a parameter"
        return
    loss.backward()
