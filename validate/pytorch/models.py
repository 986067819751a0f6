"""Fifteen models as lists of layers, so that one process or several run the same kernels.

Another file with these five functions can stand in its place: ./dev torch OUT MODELS.py. A layer is a module that
takes what the layer before it gives: a tensor or a tuple of tensors. The loss is the mean square of the last result.
"""
import torch
from torch import nn
import torch.nn.functional as F

# The first five were looked at while the predictions were built, the others when all was fixed.
BUILDING = ["mlp", "conv", "transformer", "recurrent", "embedding"]
JUDGING = ["residual", "encoder_decoder", "mixture", "separable", "mixer"]
# Written after the others had been evaluated: short ops, or more bytes between layers for each op's work.
TRANSFERRING = ["large_images", "small_transformer", "hourglass", "small_recurrent", "concatenated"]


class Residual(nn.Module):
    """x + the parts one after the other, then ReLU; a part of another shape comes with its own shortcut."""

    def __init__(self, *parts, shortcut=None):
        super().__init__()
        self.parts, self.shortcut = nn.Sequential(*parts), shortcut or nn.Identity()

    def forward(self, x):
        return F.relu(self.parts(x) + self.shortcut(x))


def conv_norm(inputs, outputs, kernel=3, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def attend(q, k, v, heads):
    """Attention of `heads` heads; all are [batch, length, width]."""
    (b, t, w), s = q.shape, k.shape[1]
    q, k, v = (x.view(b, n, heads, w // heads).transpose(1, 2) for x, n in ((q, t), (k, s), (v, s)))
    weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * (w // heads) ** -0.5, -1)
    return torch.matmul(weights, v).transpose(1, 2).reshape(b, t, w)


class Block(nn.Module):
    """One layer of a transformer. With `memory` it reads a pair (x, memory) and attends to the memory, too."""

    def __init__(self, width, heads, memory=False):
        super().__init__()
        self.heads, self.memory = heads, memory
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        if memory:
            self.cross_norm, self.query, self.keys = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.feed_norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x, memory = x if self.memory else (x, None)
        x = x + self.out(attend(*self.qkv(self.norm(x)).chunk(3, -1), self.heads))
        if self.memory:
            x = x + attend(self.query(self.cross_norm(x)), *self.keys(memory).chunk(2, -1), self.heads)
        x = x + self.down(F.gelu(self.up(self.feed_norm(x))))
        return (x, memory) if self.memory else x


class Fork(nn.Module):
    """The end of an encoder: what the decoder starts from, and what it attends to."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.start = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        memory = self.norm(x)
        return self.start(memory), memory


class First(nn.Module):
    def forward(self, pair):
        return pair[0]


class Recurrent(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.cell = nn.LSTM(inputs, width, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Experts(nn.Module):
    """A mixture of experts in which each expert takes an equal share of the tokens, those that suit it best."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)) for _ in range(experts))

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weights = torch.softmax(self.gate(tokens), -1)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            weight, chosen = weights[:, i].topk(len(tokens) // len(self.experts))
            out = out.index_add(0, chosen, weight[:, None] * expert(tokens[chosen]))
        return x + out.view_as(x)


class Mixer(nn.Module):
    """Mixes along the tokens, then along the features, both gated."""

    def __init__(self, length, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.tokens, self.features = nn.Linear(length, 2 * length), nn.Linear(width, 4 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + F.glu(self.tokens(self.norms[0](x).transpose(1, 2)), -1).transpose(1, 2)
        return x + self.back(F.glu(self.features(self.norms[1](x)), -1))


class Grow(nn.Module):
    """Reads all results so far, and adds one to them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = conv_norm(inputs, outputs, 1)

    def forward(self, results):
        results = results if isinstance(results, tuple) else (results,)
        return *results, self.conv(torch.cat(results, 1))


class Join(nn.Module):
    def forward(self, results):
        return torch.cat(results, 1)


def names():
    return BUILDING + JUDGING + TRANSFERRING


def batch_of(name):
    return {"mlp": 64, "mixer": 16, "hourglass": 64, "small_transformer": 16, "small_recurrent": 16}.get(name, 8)


def cuts_of(name):
    """Where a second stage may begin: indices of layers."""
    return {"mlp": [4, 3], "conv": [3, 4], "recurrent": [3, 2], "embedding": [1, 2], "residual": [3, 4],
            "encoder_decoder": [3, 5], "mixture": [2, 3], "separable": [4, 3], "mixer": [3, 2], "hourglass": [1, 5],
            "small_transformer": [2, 3], "concatenated": [3, 2]}.get(name, [3, 4])  # fmt: skip


def input_of(name, batch):
    torch.manual_seed(1)
    if name in ("recurrent", "embedding", "encoder_decoder", "small_recurrent"):
        return torch.randint(0, 2000, (batch, 32))
    if name in ("large_images", "concatenated"):
        return torch.randn(batch, 8, 96, 96)
    if name == "small_transformer":
        return torch.randn(batch, 16, 64)
    if name in ("conv", "residual", "separable"):
        return torch.randn(batch, 16, 32, 32)
    return torch.randn(batch, 512) if name in ("mlp", "hourglass") else torch.randn(batch, 32, 256)


def layers_of(name):
    torch.manual_seed(0)
    if name == "mlp":
        widths = [512] + [1024] * 7 + [512]
        return [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(widths, widths[1:])]
    if name == "conv":
        widths = [16, 32, 32, 64, 64, 64, 64]
        return [conv_norm(a, b) for a, b in zip(widths, widths[1:])]
    if name == "transformer":
        return [Block(256, 4) for _ in range(6)]
    if name == "recurrent":
        return [nn.Embedding(2000, 256)] + [Recurrent(256, 256) for _ in range(4)] + [nn.Linear(256, 256)]
    if name == "embedding":  # few operations on many weights
        return [nn.Embedding(2000, 1024), nn.Linear(1024, 512), nn.Sequential(nn.ReLU(), nn.Linear(512, 512)), nn.Linear(512, 2000)]
    if name == "residual":
        block = lambda n: Residual(conv_norm(n, n), nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n))
        wider = Residual(conv_norm(32, 64, stride=2), nn.Conv2d(64, 64, 3, padding=1), shortcut=nn.Conv2d(32, 64, 1, 2))
        return [conv_norm(16, 32), block(32), block(32), wider, block(64), block(64)]
    if name == "encoder_decoder":
        return [nn.Embedding(2000, 192)] + [Block(192, 4) for _ in range(3)] + [Fork(192)] + [Block(192, 4, True) for _ in range(2)] + [First()]
    if name == "mixture":
        return [Block(256, 4), Experts(256, 4), Block(256, 4), Experts(256, 4), nn.LayerNorm(256)]
    if name == "separable":
        pair = lambda a, b: nn.Sequential(conv_norm(a, a, groups=a), conv_norm(a, b, 1))
        return [conv_norm(16, 32), pair(32, 64), pair(64, 64), pair(64, 128), pair(128, 128), conv_norm(128, 64, 1)]
    if name == "mixer":
        return [Mixer(32, 256) for _ in range(6)]
    if name == "large_images":
        return [conv_norm(8, 8, k) for k in (3, 1, 3, 1, 3, 1)]
    if name == "small_transformer":
        return [Block(64, 2) for _ in range(5)]
    if name == "hourglass":  # wide, then narrow, then wide
        widths = [512, 2048, 512, 64, 64, 512, 2048, 512]
        return [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in zip(widths, widths[1:])]
    if name == "small_recurrent":
        return [nn.Embedding(2000, 64)] + [Recurrent(64, 64) for _ in range(4)] + [nn.Linear(64, 64)]
    if name == "concatenated":
        return [Grow(8 + 8 * i, 8) for i in range(5)] + [Join()]
    raise KeyError(name)
