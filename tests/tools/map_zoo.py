"""Small models whose parts join in every way that a device map must respect; NAME(batch) -> (model, inputs)."""
import torch
import torch.nn.functional as F
from torch import nn

D = 64


class Tower(nn.Module):
    def __init__(self, n=3, d=D):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Joined(nn.Module):
    """Two towers that the parent joins."""

    def __init__(self, join, width=D):
        super().__init__()
        self.stem, self.left, self.right, self.head = nn.Linear(D, D), Tower(), Tower(), nn.Linear(width, 10)
        self.join = join

    def forward(self, x):
        x = self.stem(x)
        return self.head(self.join(self.left(x), self.right(x)))


def rows(batch):
    return (torch.randn(batch, 8, D),)


def plus(batch):
    return Joined(lambda a, b: a + b), rows(batch)


def cat(batch):
    return Joined(lambda a, b: torch.cat([a, b], -1), 2 * D), rows(batch)


def matmul(batch):
    return Joined(lambda a, b: a @ b.transpose(1, 2), 8), rows(batch)


def sliced(batch):
    return Joined(lambda a, b: a + b[:, :1]), rows(batch)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.norm = nn.Linear(D, 4 * D), nn.Linear(4 * D, D), nn.LayerNorm(D)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


def residual(batch):
    return nn.Sequential(nn.Linear(D, D), *[Residual() for _ in range(4)], nn.Linear(D, 10)), rows(batch)


class Sibling(nn.Module):
    """Parts of a Conformer, joined at the root."""

    def __init__(self):
        super().__init__()
        self.stem, self.a, self.b, self.head = nn.Linear(D, D), Tower(2), Tower(2), nn.Linear(D, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + 0.5 * self.a(x)
        x = x + self.b(x)
        return self.head(x)


def siblings(batch):
    return Sibling(), rows(batch)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower, self.head = Tower(4), nn.Linear(D, 1)

    def forward(self, x, y):
        return self.head(torch.abs(self.tower(x) - self.tower(y)))


def siamese(batch):
    return Siamese(), rows(batch) + rows(batch)


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, memory):
        weights = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 8.0, -1)
        return self.out(weights @ self.v(memory))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.cross, self.mlp, self.n1, self.n2 = Attend(), Attend(), Residual(), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x, memory):
        x = self.n1(x + self.own(x, x))
        return self.mlp(self.n2(x + self.cross(x, memory)))


class EncoderDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(Residual(), Residual()), nn.ModuleList([Decoder(), Decoder()])
        self.head = nn.Linear(D, 10)

    def forward(self, x, y):
        memory = self.encoder(x)
        for layer in self.decoder:
            y = layer(y, memory)
        return self.head(y)


def encoder_decoder(batch):
    return EncoderDecoder(), rows(batch) + rows(batch)


class Double(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.a, self.b, self.norm = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o)

    def forward(self, x):
        return F.relu(self.norm(self.b(F.relu(self.a(x)))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        w = [8, 16, 32]
        self.inp, self.down = Double(3, w[0]), nn.ModuleList([Double(w[k], w[k + 1]) for k in range(2)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(w[k + 1], w[k], 2, 2) for k in (1, 0)])
        self.join = nn.ModuleList([Double(2 * w[k], w[k]) for k in (1, 0)])
        self.time, self.head = nn.Sequential(nn.Linear(D, 4 * D), nn.SiLU(), nn.Linear(4 * D, w[2])), nn.Conv2d(w[0], 3, 1)

    def forward(self, x, t):
        kept = [self.inp(x)]
        for down in self.down:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        x = kept.pop() + self.time(t)[:, :, None, None]
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)


def unet(batch):
    return UNet(), (torch.randn(batch, 3, 32, 32), torch.randn(batch, D))


class PoolSkip(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.pool, self.b, self.c = Double(3, 16), nn.MaxPool2d(2), Double(16, 16), nn.Conv2d(16, 8, 1)

    def forward(self, x):
        x = self.pool(self.a(x))
        return self.c(self.b(x) + x)


def pool_skip(batch):
    return PoolSkip(), (torch.randn(batch, 3, 16, 16),)


class Dictionaries(nn.Module):
    """Blocks that nobody calls."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleDict({"up": nn.Linear(D, 4 * D), "down": nn.Linear(4 * D, D)}) for _ in range(6)])

    def forward(self, x):
        for block in self.blocks:
            x = block["down"](block["up"](x))
        return x


def dictionaries(batch):
    return Dictionaries(), rows(batch)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(D, 3), nn.ModuleList([Residual() for _ in range(3)])

    def forward(self, x):
        share = torch.softmax(self.gate(x), -1)
        return sum(share[..., i:i + 1] * e(x) for i, e in enumerate(self.experts))


def moe(batch):
    return nn.Sequential(nn.Linear(D, D), Experts(), Experts(), nn.Linear(D, 10)), rows(batch)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(100, D), nn.Sequential(Residual(), Residual()), nn.Linear(D, 100, False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


def tied(batch):
    return Tied(), (torch.zeros(batch, 8, dtype=torch.long),)


class Outputs(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.stem, self.a, self.b, self.kind = Tower(2), Tower(2), Tower(2), kind

    def forward(self, x):
        x = self.stem(x)
        a, b = self.a(x), self.b(x)
        return {"list": [a, b], "tuple": (a, b), "dict": {"a": a, "b": b}}[self.kind]


def list_output(batch):
    return Outputs("list"), rows(batch)


def dict_output(batch):
    return Outputs("dict"), rows(batch)


class Pair(nn.Module):
    """A module of two outputs, both read outside."""

    def __init__(self):
        super().__init__()
        self.a, self.b = Tower(2), Tower(2)

    def forward(self, x):
        return self.a(x), self.b(x)


class ReadsPair(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair, self.head = Pair(), nn.Linear(D, 10)

    def forward(self, x):
        a, b = self.pair(x)
        return self.head(a * b)


def tuple_inside(batch):
    return ReadsPair(), rows(batch)


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(D))
        self.a, self.b, self.head = Tower(2), Tower(2), nn.Linear(D, 10)

    def forward(self, x):
        return self.head(self.b(self.a(x) * self.scale))


def buffers(batch):
    return Buffered(), rows(batch)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.shared, self.b = nn.Linear(D, D), Residual(), nn.Linear(D, D)

    def forward(self, x):
        return self.b(self.shared(self.a(self.shared(x))))


def called_twice(batch):
    return Twice(), rows(batch)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu, self.fc = nn.ReLU(inplace=True), nn.Linear(D, D)

    def forward(self, x):
        return self.fc(self.relu(x))


def in_place_head(batch):
    return nn.Sequential(nn.Linear(D, D), InPlace(), InPlace(), nn.Linear(D, 10)), rows(batch)


class OwnScalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.fc1, self.fc2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x))) * self.scale


def own_scalar(batch):
    return nn.Sequential(OwnScalar(), OwnScalar(), nn.Linear(D, 5)), rows(batch)


class ViT(nn.Module):
    """Parameters of the root."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, D, 8, 8)
        self.token, self.position = nn.Parameter(torch.zeros(1, 1, D)), nn.Parameter(torch.zeros(1, 17, D))
        self.blocks, self.head = nn.Sequential(*[Residual() for _ in range(4)]), nn.Linear(D, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.blocks(x)[:, 0])


def vit(batch):
    return ViT(), (torch.randn(batch, 3, 32, 32),)


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text, self.scale = nn.Sequential(Tower(), nn.Linear(D, 32)), nn.Sequential(Tower(), nn.Linear(D, 32)), nn.Parameter(torch.ones(1))

    def forward(self, image, text):
        a, b = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
        return self.scale.exp() * a @ b.transpose(1, 2)


def clip(batch):
    return Clip(), rows(batch) + rows(batch)


class Constant(nn.Module):
    """Adds a tensor that is made on the device of the model's input, or of one of its weights."""

    def __init__(self, constant):
        super().__init__()
        self.constant, self.first, self.second = constant, nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        return self.second(self.first(x)) + self.constant(self, x)


def on_its_device(batch):
    return Constant(lambda _, x: torch.arange(D, device=x.device)), rows(batch)


def zeros_like_it(batch):
    return Constant(lambda _, x: torch.zeros_like(x)), {"x": rows(batch)[0]}


def where_weights_are(batch):
    return Constant(lambda model, _: torch.arange(D, device=next(model.parameters()).device)), rows(batch)


ALL = [plus, cat, matmul, sliced, residual, siblings, siamese, encoder_decoder, unet, pool_skip, dictionaries, moe, tied,
       list_output, dict_output, tuple_inside, buffers, called_twice, in_place_head, own_scalar, vit, clip,
       on_its_device, zeros_like_it, where_weights_are]
