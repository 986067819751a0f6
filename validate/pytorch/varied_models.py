"""Eleven models of other shapes than those of models.py: ./dev torch OUT validate/pytorch/varied_models.py

Their peaks of memory were looked at while the importer's rule for workspaces was made. No rule was made by their times.
"""
import torch
from torch import nn
import torch.nn.functional as F


class Down(nn.Module):
    """Half of a U-Net's step down: what the way up reads, and what goes on."""

    def __init__(self, a, b):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.SiLU())

    def forward(self, x):
        x = x if isinstance(x, tuple) else (x,)
        y = self.body(x[-1])
        return (*x[:-1], y, F.max_pool2d(y, 2))


class Bottom(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return (*x[:-1], F.elu(self.conv(x[-1])))


class Up(nn.Module):
    def __init__(self, a, skipped, b):
        super().__init__()
        self.up = nn.ConvTranspose2d(a, b, 2, stride=2)
        self.body = nn.Sequential(nn.Conv2d(b + skipped, b, 3, padding=1), nn.ReLU(inplace=True))

    def forward(self, x):
        *rest, skipped, y = x
        y = self.body(torch.cat([self.up(y), skipped], 1))
        return (*rest, y) if rest else y


class Patches(nn.Module):
    """An image of 64 x 64 as 64 patches and a token of the class."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 8, 8)
        self.token, self.position = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 65, width))

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position


class OfToken(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 100)

    def forward(self, x):
        return self.out(x[:, 0])


class Gru(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.cell = nn.GRU(inputs, width, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.cell(x)[0]


class Excited(nn.Module):
    """A convolution whose channels are weighed by their means."""

    def __init__(self, a, b, stride=1):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.Hardswish(inplace=True))
        self.weigh = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(b, b // 4, 1), nn.ReLU(), nn.Conv2d(b // 4, b, 1), nn.Sigmoid())

    def forward(self, x):
        x = self.body(x)
        return x * self.weigh(x)


class Dense(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(a, b), nn.LayerNorm(b), nn.Dropout(0.2)

    def forward(self, x):
        return self.drop(F.leaky_relu(self.norm(self.linear(x)), 0.1, inplace=True))


class Branches(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.sizes = nn.ModuleList(nn.Conv2d(a, b, n, padding=n // 2) for n in (1, 3, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(a, b, 1))

    def forward(self, x):
        return F.relu(torch.cat([conv(x) for conv in self.sizes] + [self.pooled(x)], 1))


class Gated(nn.Module):
    """A dilated convolution along time, gated; its results are added up beside the layers."""

    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.out, self.beside = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x):
        x, added = x if isinstance(x, tuple) else (x, None)
        a, b = self.conv(x).chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b)
        beside = self.beside(h)
        return x + self.out(h), beside if added is None else added + beside


class OfAdded(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return self.conv(F.relu(x[1]))


class RootMeanSquare(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


class Causal(nn.Module):
    """A layer of Llama: causal attention, and a gated product."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm, self.feed_norm = heads, RootMeanSquare(width), RootMeanSquare(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, 3 * width), (width, 3 * width), (3 * width, width)))

    def forward(self, x):
        y = self.norm(x)
        b, t, w = y.shape
        q, k, v = (f(y).view(b, t, self.heads, w // self.heads) for f in (self.q, self.k, self.v))
        weights = torch.einsum("bihd,bjhd->bhij", q, k) / (w // self.heads) ** 0.5
        weights = weights.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        x = x + self.out(torch.einsum("bhij,bjhd->bihd", weights.softmax(-1), v).reshape(b, t, w))
        y = self.feed_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Messages(nn.Module):
    """A layer of a graph network: 64 vertices, 256 edges."""

    def __init__(self, width):
        super().__init__()
        self.message, self.update = nn.Linear(width, width), nn.Linear(2 * width, width)
        drawn = torch.Generator().manual_seed(3)
        self.register_buffer("sources", torch.randint(0, 64, (256,), generator=drawn))
        self.register_buffer("ends", torch.randint(0, 64, (256,), generator=drawn))

    def forward(self, x):
        m = torch.relu(self.message(x.index_select(1, self.sources)))
        added = torch.zeros_like(x).index_add(1, self.ends, m)
        return x + torch.tanh(self.update(torch.cat([x, added], -1)))


class Cross(nn.Module):
    """Features of a recommender, crossed with the first ones."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        first, x = x if isinstance(x, tuple) else (x, x)
        return first, first * self.linear(x) + x


class OfBoth(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(2 * width, 1)

    def forward(self, x):
        return self.out(torch.cat(x, -1))


class Bottleneck(nn.Module):
    """Of a ResNet, with ReLU and the sum in place."""

    def __init__(self, a, narrow, b, stride=1):
        super().__init__()
        norm = lambda conv: (conv, nn.BatchNorm2d(conv.out_channels))
        self.body = nn.Sequential(
            *norm(nn.Conv2d(a, narrow, 1, bias=False)), nn.ReLU(True), *norm(nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False)), nn.ReLU(True),
            *norm(nn.Conv2d(narrow, b, 1, bias=False)))  # fmt: skip
        self.shortcut = nn.Sequential(*norm(nn.Conv2d(a, b, 1, stride, bias=False))) if a != b or stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.body(x)
        y += self.shortcut(x)
        return F.relu_(y)


class Pooled(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.out = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.out(F.adaptive_avg_pool2d(x, 1).flatten(1))


def names():
    return ["unet", "vision", "gru", "excited", "dense", "inception", "waves", "llama", "graph", "crosses", "resnet"]


def batch_of(name):
    return {"dense": 64, "crosses": 64, "gru": 16}.get(name, 8)


def cuts_of(name):
    return [3, 2] if name in ("vision", "excited") else [3, 4] if name in ("dense", "waves", "resnet") else [2, 3]


def input_of(name, batch):
    torch.manual_seed(1)
    if name in ("gru", "llama", "crosses"):
        entries, length = {"gru": (1000, 24), "llama": (1000, 64), "crosses": (20000, 40)}[name]
        return torch.randint(0, entries, (batch, length))
    shape = {"unet": (3, 64, 64), "vision": (3, 64, 64), "dense": (1024,), "waves": (64, 512), "graph": (64, 128)}
    return torch.randn(batch, *shape.get(name, (16, 32, 32)))


def layers_of(name):
    torch.manual_seed(0)
    if name == "unet":
        return [Down(3, 16), Down(16, 32), Bottom(32), Up(32, 32, 32), Up(32, 16, 16)]
    if name == "vision":
        block = lambda: nn.TransformerEncoderLayer(192, 4, 768, dropout=0.1, batch_first=True)
        return [Patches(192)] + [block() for _ in range(4)] + [OfToken(192)]
    if name == "gru":
        return [nn.Embedding(1000, 128), Gru(128, 128), Gru(256, 128), Gru(256, 128), nn.Linear(256, 1000)]
    if name == "excited":
        return [Excited(16, 32), Excited(32, 32), Excited(32, 64, 2), Excited(64, 64), Excited(64, 96), Pooled(96, 10)]
    if name == "dense":
        return [Dense(1024, 2048)] + [Dense(2048, 2048) for _ in range(3)] + [Dense(2048, 1024), nn.Linear(1024, 512)]
    if name == "inception":
        return [Branches(16, 16), Branches(64, 24), Branches(96, 24), Branches(96, 32), nn.Conv2d(128, 16, 1)]
    if name == "waves":
        return [Gated(64, 2**i) for i in range(6)] + [OfAdded(64)]
    if name == "llama":
        return [nn.Embedding(1000, 256)] + [Causal(256, 4) for _ in range(4)] + [nn.Sequential(RootMeanSquare(256), nn.Linear(256, 1000, bias=False))]
    if name == "graph":
        return [Messages(128) for _ in range(5)]
    if name == "crosses":
        return [nn.EmbeddingBag(20000, 256, mode="sum")] + [Cross(256) for _ in range(4)] + [OfBoth(256)]
    return [Bottleneck(16, 16, 64), Bottleneck(64, 16, 64), Bottleneck(64, 32, 128, 2), Bottleneck(128, 32, 128), Bottleneck(128, 64, 256, 2),
            Pooled(256, 100)]  # fmt: skip
