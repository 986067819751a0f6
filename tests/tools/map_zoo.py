"""Small models whose parts join in every way that a device map must respect; NAME(batch) -> (model, inputs)."""
import torch
import torch.nn.functional as F
from torch import nn
from torch_zoo import Lambda, named

D = 64


def rows(batch):
    return (torch.randn(batch, 8, D),)


def lin(a=D, b=D):
    return nn.Linear(a, b)


def tower(n=3):
    def run(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x
    return Lambda(run, layers=nn.ModuleList([lin() for _ in range(n)]))


def joined(join, width=D):
    """Two towers that the parent joins."""
    def run(self, x):
        x = self.stem(x)
        return self.head(join(self.left(x), self.right(x)))
    return Lambda(run, stem=lin(), left=tower(), right=tower(), head=lin(width, 10))


def block():
    return Lambda(lambda s, x: x + s.fc2(F.gelu(s.fc1(s.norm(x)))), fc1=lin(D, 4 * D), fc2=lin(4 * D, D), norm=nn.LayerNorm(D))


def siblings(batch):
    """Parts of a Conformer, joined at the root."""
    def run(self, x):
        x = self.stem(x)
        x = x + 0.5 * self.a(x)
        x = x + self.b(x)
        return self.head(x)
    return Lambda(run, stem=lin(), a=tower(2), b=tower(2), head=lin(D, 10)), rows(batch)


def attend():
    def run(self, x, memory):
        weights = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 8.0, -1)
        return self.out(weights @ self.v(memory))
    return Lambda(run, q=lin(), k=lin(), v=lin(), out=lin())


def decoder():
    def run(self, x, memory):
        x = self.n1(x + self.own(x, x))
        return self.mlp(self.n2(x + self.cross(x, memory)))
    return Lambda(run, own=attend(), cross=attend(), mlp=block(), n1=nn.LayerNorm(D), n2=nn.LayerNorm(D))


def encoder_decoder(batch):
    def run(self, x, y):
        memory = self.encoder(x)
        for layer in self.decoder:
            y = layer(y, memory)
        return self.head(y)
    return Lambda(run, encoder=nn.Sequential(block(), block()), decoder=nn.ModuleList([decoder(), decoder()]), head=lin(D, 10)), (
        rows(batch) + rows(batch))


def double(i, o):
    return Lambda(lambda s, x: F.relu(s.norm(s.b(F.relu(s.a(x))))), a=nn.Conv2d(i, o, 3, padding=1), b=nn.Conv2d(o, o, 3, padding=1),
                  norm=nn.BatchNorm2d(o))


def unet(batch):
    def run(self, x, t):
        kept = [self.inp(x)]
        for down in self.down:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        x = kept.pop() + self.time(t)[:, :, None, None]
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.head(x)
    return Lambda(run, inp=double(3, 8), down=nn.ModuleList([double(8, 16), double(16, 32)]),
                  up=nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)]),
                  join=nn.ModuleList([double(32, 16), double(16, 8)]),
                  time=nn.Sequential(lin(D, 4 * D), nn.SiLU(), lin(4 * D, 32)), head=nn.Conv2d(8, 3, 1)), (
        torch.randn(batch, 3, 32, 32), torch.randn(batch, D))


def pool_skip(batch):
    def run(self, x):
        x = self.pool(self.a(x))
        return self.c(self.b(x) + x)
    return Lambda(run, a=double(3, 16), pool=nn.MaxPool2d(2), b=double(16, 16), c=nn.Conv2d(16, 8, 1)), (torch.randn(batch, 3, 16, 16),)


def dictionaries(batch):
    """Blocks that nobody calls."""
    def run(self, x):
        for blocks in self.blocks:
            x = blocks["down"](blocks["up"](x))
        return x
    return Lambda(run, blocks=nn.ModuleList([nn.ModuleDict({"up": lin(D, 4 * D), "down": lin(4 * D, D)}) for _ in range(6)])), rows(batch)


def experts():
    def run(self, x):
        share = torch.softmax(self.gate(x), -1)
        return sum(share[..., i:i + 1] * e(x) for i, e in enumerate(self.experts))
    return Lambda(run, gate=lin(D, 3), experts=nn.ModuleList([block() for _ in range(3)]))


def tied(batch):
    model = Lambda(lambda s, ids: s.head(s.body(s.embed(ids))), embed=nn.Embedding(100, D), body=nn.Sequential(block(), block()),
                   head=nn.Linear(D, 100, False))
    model.head.weight = model.embed.weight
    return model, (torch.zeros(batch, 8, dtype=torch.long),)


def outputs(join):
    def run(self, x):
        x = self.stem(x)
        return join(self.a(x), self.b(x))
    return Lambda(run, stem=tower(2), a=tower(2), b=tower(2))


def tuple_inside(batch):
    """A module of two outputs, both read outside."""
    def run(self, x):
        a, b = self.pair(x)
        return self.head(a * b)
    return Lambda(run, pair=Lambda(lambda s, x: (s.a(x), s.b(x)), a=tower(2), b=tower(2)), head=lin(D, 10)), rows(batch)


def in_place():
    return Lambda(lambda s, x: s.fc(s.relu(x)), relu=nn.ReLU(inplace=True), fc=lin())


def scaled():
    return Lambda(lambda s, x: s.fc2(F.relu(s.fc1(x))) * s.scale, scale=nn.Parameter(torch.ones(1)), fc1=lin(D, 4 * D), fc2=lin(4 * D, D))


def vit(batch):
    """Parameters of the root."""
    def run(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.blocks(x)[:, 0])
    return Lambda(run, patch=nn.Conv2d(3, D, 8, 8), token=nn.Parameter(torch.zeros(1, 1, D)), position=nn.Parameter(torch.zeros(1, 17, D)),
                  blocks=nn.Sequential(*[block() for _ in range(4)]), head=lin(D, 10)), (torch.randn(batch, 3, 32, 32),)


def clip(batch):
    def run(self, image, text):
        a, b = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
        return self.scale.exp() * a @ b.transpose(1, 2)
    return Lambda(run, image=nn.Sequential(tower(), lin(D, 32)), text=nn.Sequential(tower(), lin(D, 32)),
                  scale=nn.Parameter(torch.ones(1))), rows(batch) + rows(batch)


def constant(make):
    """Adds a tensor that is made on the device of the model's input, or of one of its weights."""
    return Lambda(lambda s, x: s.second(s.first(x)) + make(s, x), first=lin(), second=lin())


def queries(batch):
    """A learned table and a buffer that the root passes to inner modules: keys of their own, which hooks move."""
    def inner(self, q, x):
        return q + self.a(q) + self.b(x)
    return Lambda(lambda s, x: s.head(s.last(s.words(s.numbers[:, :8]), s.first(s.query.expand(x.shape[0], -1, -1), x))),
                  query=nn.Parameter(torch.zeros(1, 8, D)), numbers=torch.arange(16)[None],
                  first=Lambda(inner, a=lin(), b=lin()), last=Lambda(inner, a=lin(), b=lin()), words=nn.Embedding(16, D),
                  head=lin(D, 10)), rows(batch)


MODELS = {
    "plus": lambda batch: (joined(lambda a, b: a + b), rows(batch)),
    "cat": lambda batch: (joined(lambda a, b: torch.cat([a, b], -1), 2 * D), rows(batch)),
    "matmul": lambda batch: (joined(lambda a, b: a @ b.transpose(1, 2), 8), rows(batch)),
    "sliced": lambda batch: (joined(lambda a, b: a + b[:, :1]), rows(batch)),
    "residual": lambda batch: (nn.Sequential(lin(), *[block() for _ in range(4)], lin(D, 10)), rows(batch)),
    "siamese": lambda batch: (Lambda(lambda s, x, y: s.head(torch.abs(s.tower(x) - s.tower(y))), tower=tower(4), head=lin(D, 1)), rows(batch) + rows(batch)),
    "moe": lambda batch: (nn.Sequential(lin(), experts(), experts(), lin(D, 10)), rows(batch)),
    "list_output": lambda batch: (outputs(lambda a, b: [a, b]), rows(batch)),
    "dict_output": lambda batch: (outputs(lambda a, b: {"a": a, "b": b}), rows(batch)),
    "buffers": lambda batch: (Lambda(lambda s, x: s.head(s.b(s.a(x) * s.scale)), scale=torch.ones(D), a=tower(2), b=tower(2), head=lin(D, 10)), rows(batch)),
    "called_twice": lambda batch: (Lambda(lambda s, x: s.b(s.shared(s.a(s.shared(x)))), a=lin(), shared=block(), b=lin()), rows(batch)),
    "in_place_head": lambda batch: (nn.Sequential(lin(), in_place(), in_place(), lin(D, 10)), rows(batch)),
    "own_scalar": lambda batch: (nn.Sequential(scaled(), scaled(), lin(D, 5)), rows(batch)),
    "on_its_device": lambda batch: (constant(lambda _, x: torch.arange(D, device=x.device)), rows(batch)),
    "zeros_like_it": lambda batch: (constant(lambda _, x: torch.zeros_like(x)), {"x": rows(batch)[0]}),
    "where_weights_are": lambda batch: (constant(lambda model, _: torch.arange(D, device=next(model.parameters()).device)), rows(batch)),
}
ALL = named(MODELS) + [siblings, encoder_decoder, unet, pool_skip, dictionaries, tied, tuple_inside, vit, clip, queries]
