"""Small models of the kinds that people write, for torch_compare.py: functions batch -> (model, inputs[, loss])."""
import collections
import dataclasses
import typing

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

D = 32
AMP = "cuda"  # the device of autocast


class Lambda(nn.Module):
    """Layers, and a forward pass as a function of them and of the arguments."""

    def __init__(self, run, **layers):
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            if isinstance(layer, nn.Parameter):
                self.register_parameter(name, layer)
            elif isinstance(layer, torch.Tensor):
                self.register_buffer(name, layer)
            else:
                setattr(self, name, layer)

    def forward(self, *args, **kwargs):
        return self.run(self, *args, **kwargs)


def lin(a=D, b=D, **k):
    return nn.Linear(a, b, **k)


def par(*shape, **k):
    return nn.Parameter(torch.zeros(*shape, **k))


def rows(b, *shape):
    return torch.zeros(b, *(shape or (D,)))


def ids(b, n=8):
    return torch.zeros(b, n, dtype=torch.long)


def mlp(b):
    return nn.Sequential(lin(), nn.ReLU(), lin(D, 4)), (rows(b),)


def u_net(b):
    def run(s, x):
        a = F.relu(s.down1(x))
        c = F.relu(s.down2(F.max_pool2d(a, 2)))
        return s.out(torch.cat([a, F.interpolate(c, scale_factor=2)], 1))
    return Lambda(run, down1=nn.Conv2d(3, 8, 3, padding=1), down2=nn.Conv2d(8, 8, 3, padding=1), out=nn.Conv2d(16, 3, 1)), (
        rows(b, 3, 8, 8),)


class Block(nn.Module):
    def __init__(self, d=D, h=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.up, self.down, self.h = lin(d, 3 * d), lin(d, d), lin(d, 4 * d), lin(4 * d, d), h

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        a = torch.softmax(q @ k.transpose(-2, -1) * 0.3, -1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


def gpt(b):
    def run(s, x):
        y = s.words(x) + s.places
        for block in s.blocks:
            y = block(y)
        return s.head(y)
    model = Lambda(run, words=nn.Embedding(50, D), places=par(8, D), blocks=nn.ModuleList(Block() for _ in range(2)), head=lin(D, 50, bias=False))
    model.head.weight = model.words.weight
    target = torch.zeros(b * 8, dtype=torch.long)
    return model, (ids(b),), lambda out: F.cross_entropy(out.reshape(-1, 50), target.to(out.device))


def vit(b):
    def run(s, x):
        x = s.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([s.cls.expand(x.shape[0], -1, -1), x], 1) + s.places
        return s.head(s.block(x)[:, 0])
    return Lambda(run, patch=nn.Conv2d(3, D, 4, 4), cls=par(1, 1, D), places=par(1, 5, D), block=Block(), head=lin(D, 3)), (rows(b, 3, 8, 8),)


def seq2seq(b):
    def run(s, x, y):
        return s.t(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(y.shape[1]).to(y.device))
    return Lambda(run, t=nn.Transformer(D, 4, 1, 1, 64, batch_first=True)), (rows(b, 8, D), rows(b, 8, D))


def fused_attention(b, **k):
    def run(s, x, mask=None):
        q, kk, v = (z.unflatten(-1, (4, -1)).transpose(1, 2) for z in s.qkv(x).chunk(3, -1))
        return s.o(F.scaled_dot_product_attention(q, kk, v, attn_mask=mask, is_causal=mask is None).transpose(1, 2).flatten(2))
    return Lambda(run, qkv=lin(D, 3 * D), o=lin()), (rows(b, 8, D),)


def masked_attention(b):
    model, inputs = fused_attention(b)
    return model, (*inputs, torch.zeros(8, 8))


def grouped_attention(b):
    def run(s, x):
        q, k, v = (f(x).unflatten(-1, (-1, 8)).transpose(1, 2) for f in (s.q, s.k, s.v))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).sum()
    return Lambda(run, q=lin(), k=lin(D, 8), v=lin(D, 8)), (rows(b, 8, D),)


def flex(b):
    from torch.nn.attention.flex_attention import flex_attention

    def run(s, x):
        q, k, v = (z.unflatten(-1, (2, -1)).transpose(1, 2) for z in s.qkv(x).chunk(3, -1))
        return flex_attention(q, k, v).sum()
    return Lambda(run, qkv=lin(D, 3 * D)), (rows(b, 128, D),)


def rope(b):
    table = torch.polar(torch.ones(8, D // 2), torch.zeros(8, D // 2))
    return Lambda(lambda s, x: torch.view_as_real(torch.view_as_complex(s.q(x).reshape(*x.shape[:-1], -1, 2)) * s.f).flatten(2), q=lin(),
                  f=table), (rows(b, 8, D),)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


early = Product.apply  # bound before anybody replaces it


def fixed_point(b):
    def run(s, x):
        with torch.no_grad():
            z = torch.tanh(s.f(x))
        return torch.tanh(s.f(z) + x)
    return Lambda(run, f=lin()), (rows(b),)


def frozen(b):
    model = nn.Sequential(lin(), nn.ReLU(), lin(), nn.ReLU(), lin())
    model[2].requires_grad_(False)
    return model, (rows(b),)


def lora(b):
    model = Lambda(lambda s, x: s.w(x) + s.b(s.a(x)), w=lin(), a=lin(D, 4, bias=False), b=lin(4, D, bias=False))
    model.w.requires_grad_(False)
    return model, (rows(b),)


def recomputed(b):
    def run(s, x):
        for block in s.b:
            x = checkpoint(block, x, use_reentrant=False)
        return x
    return Lambda(run, b=nn.ModuleList(nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D)) for _ in range(3))), (rows(b),)


def reentrant(b):
    def run(s, x):
        x = s.a(x)
        for block in s.b:
            x = checkpoint(block, x, use_reentrant=True)
        return x
    return Lambda(run, a=lin(), b=nn.ModuleList(nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D)) for _ in range(2))), (rows(b),)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    mask: typing.Optional[torch.Tensor] = None


class Output(collections.OrderedDict):
    """As ModelOutput of transformers."""

    def __getattr__(self, name):
        return self[name]


def named_tuple(b):
    pair = collections.namedtuple("Pair", "a b")
    return Lambda(lambda s, p: pair(s.l(p.a), s.l(p.b)), l=lin()), (pair(rows(b), rows(b)),)


def other_first_name(b):
    class Odd(nn.Module):
        def __init__(this):
            super().__init__()
            this.l = lin()

        def forward(this, x):
            return this.l(x)
    return Odd(), (rows(b),)


class Experts(nn.Module):
    """Routing by nonzero, as Mixtral in transformers; 4 experts, 2 of them per token."""

    def __init__(self, rows_of):
        super().__init__()
        self.g, self.x, self.rows_of = lin(D, 4), nn.ModuleList(lin() for _ in range(4)), rows_of

    def forward(self, x):
        w, i = self.g(x).softmax(-1).topk(2, -1)
        out, mask = torch.zeros_like(x), F.one_hot(i, 4).permute(2, 1, 0)
        for n, expert in enumerate(self.x):
            t, k = self.rows_of(i, mask, n)
            out.index_add_(0, t, expert(x[t]) * w[t, k, None])
        return out


def routed_by_mask(b):
    def run(s, x):
        p, i = s.g(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for n, expert in enumerate(s.x):
            out[i == n] = expert(x[i == n]) * p[i == n][:, None]
        return out
    return Lambda(run, g=lin(D, 4), x=nn.ModuleList(lin() for _ in range(4))), (rows(16 * b),)


def routed_to_hit(b):
    """As Mixtral in newer transformers: a loop over the experts that some token has chosen."""
    def run(s, x):
        w, i = s.g(x).softmax(-1).topk(2, -1)
        out, mask = torch.zeros_like(x), F.one_hot(i, 4).permute(2, 1, 0)
        for e in torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero():
            k, t = torch.where(mask[e].squeeze(0))
            out.index_add_(0, t, s.x[e](x[t]) * w[t, k, None])
        return out
    return Lambda(run, g=lin(D, 4), x=nn.ModuleList(lin() for _ in range(4))), (rows(16 * b),)


def lstm_cell(b):
    def run(s, x):
        h = c = x.new_zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            h, c = s.c(x[:, t], (h, c))
        return s.o(h)
    return Lambda(run, c=nn.LSTMCell(D, 16), o=lin(16, 4)), (rows(b, 4, D),)


def graph_layer(b):
    def run(s, x, edges):
        h = s.a(x)
        return s.b(torch.zeros_like(h).scatter_add(0, edges[1][:, None].expand(-1, D), h[edges[0]]))
    return Lambda(run, a=lin(), b=lin()), (rows(8), torch.zeros(2, 12, dtype=torch.long))


def straight_through(b):
    def run(s, x):
        z = s.e(x)
        q = s.c[(z.unsqueeze(1) - s.c).pow(2).sum(-1).argmin(-1)]
        return s.d(z + (q - z).detach()).sum() + ((q - z.detach()) ** 2).mean()
    return Lambda(run, e=lin(), c=par(16, D), d=lin()), (rows(b),)


def conditional(b):
    def run(s, x):
        return torch.cond(x.sum() > 1e9, lambda x: s.small(x), lambda x: s.down(s.up(x)), (x,))
    return Lambda(run, small=lin(), up=lin(D, 64), down=lin(64, D)), (rows(b),)


def in_place(b):
    def run(s, x):
        y = s.a(x)
        y += 1
        y[:, :4] = 0
        y.relu_()
        return s.b(y)
    return Lambda(run, a=lin(), b=lin()), (rows(b),)


def buffers(b):
    def run(s, x):
        with torch.no_grad():
            s.cache[: x.shape[0]] = x
        return s.a(s.cache[: x.shape[0]] + s.unused_scale * x)
    return Lambda(run, a=lin(), cache=torch.zeros(64, D), unused_scale=torch.ones(())), (rows(b),)


def amp(model, run=lambda m, x: m(x)):
    def forward(s, x):
        with torch.autocast(AMP, dtype=torch.bfloat16):
            return run(s.m, x).float()
    return Lambda(forward, m=model)


def encoder_under(mode):
    def run(s, x):
        with mode():
            x = s.enc(x)
        return s.head(x.clone())
    return Lambda(run, enc=lin(), head=lin(D, 4))


# Models of one expression; named() makes functions of them.
MODELS = {
    "nested_sequential": lambda b: (nn.Sequential(nn.Sequential(lin(), nn.GELU()), nn.Sequential(lin(), nn.LayerNorm(D))), (rows(b),)),
    "conv_net": lambda b: (nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=4, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), lin(8, 4)), (rows(b, 3, 16, 16),)),
    "transposed": lambda b: (nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1)), (rows(b, 3, 16, 16),)),
    "conv_1d_3d": lambda b: (Lambda(lambda s, x, y: s.a(x).sum() + s.b(y).sum(), a=nn.Conv1d(4, 8, 3), b=nn.Conv3d(2, 4, 2)), (
        rows(b, 4, 16), rows(b, 2, 4, 4, 4))),
    "encoder": lambda b: (Lambda(lambda s, x: s.l(s.t(x).mean(1)), t=nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 4, 64, batch_first=True), 2),
        l=lin(D, 5)), (rows(b, 8, D),)),
    "self_attention": lambda b: (Lambda(lambda s, x: s.a(x, x, x)[0], a=nn.MultiheadAttention(D, 4, batch_first=True)), (rows(b, 8, D),)),
    "stacked_experts": lambda b: (Lambda(lambda s, x: sum(s.a(x) @ s.w[e] for e in range(4)), a=lin(), w=par(4, D, D)), (rows(b),)),
    "weights_by_views": lambda b: (Lambda(lambda s, x: F.linear(x @ s.w.t(), s.w.view(D, D)) + s.c.expand(x.shape[0], -1), w=par(D, D), c=par(1, D)), (rows(b),)),
    "einsum": lambda b: (Lambda(lambda s, x: torch.einsum("bd,edf->bef", x, s.w).sum(), w=par(4, D, D)), (rows(b),)),
    "complex_weights": lambda b: (Lambda(lambda s, x: torch.view_as_real(torch.view_as_complex(s.q(x).reshape(-1, D // 2, 2)) * s.f), q=lin(),
        f=par(D // 2, dtype=torch.complex64)), (rows(b),)),
    "own_function": lambda b: (Lambda(lambda s, x: Product.apply(s.a(x), s.w), a=lin(), w=par(D, D)), (rows(b),)),
    "own_function_bound": lambda b: (Lambda(lambda s, x: s.o(early(s.a(x), s.w)), a=lin(), w=par(D, D), o=lin()), (rows(b),)),
    "detached": lambda b: (Lambda(lambda s, x: s.head(s.enc(x).detach()), enc=lin(), head=lin(D, 4)), (rows(b),)),
    "no_grad": lambda b: (encoder_under(torch.no_grad), (rows(b),)),
    "inference_mode": lambda b: (encoder_under(torch.inference_mode), (rows(b),)),
    "autocast": lambda b: (amp(Lambda(lambda s, x: s.head(F.layer_norm(s.enc(x), (D,)) @ s.w), enc=lin(), w=par(D, D), head=lin(D, 4))), (rows(b),)),
    "amp_attention": lambda b: (amp(fused_attention(b)[0]), fused_attention(b)[1]),
    "amp_cnn": lambda b: (amp(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), lin(8 * 36, 4))), (rows(b, 3, 8, 8),)),
    "checkpoint_amp": lambda b: (amp(nn.Sequential(lin(), nn.ReLU(), lin()), lambda m, x: checkpoint(m, x, use_reentrant=False)), (rows(b),)),
    "half": lambda b: (nn.Sequential(lin(), nn.ReLU(), lin()).to(torch.bfloat16), (rows(b).to(torch.bfloat16),)),
    "dictionary": lambda b: (Lambda(lambda s, batch: {"y": s.l(batch["x"]), "z": None}, l=lin()), ({"x": rows(b)},)),
    "nested": lambda b: (Lambda(lambda s, xy, mask=None, scale=2.0: [s.l(xy[0] + xy[1][0]) * scale], l=lin()), ([rows(b), (rows(b),)], None)),
    "keywords": lambda b: (Lambda(lambda s, *, x, mask=None: s.l(x), l=lin()), {"x": rows(b), "mask": None}),
    "dataclass": lambda b: (Lambda(lambda s, batch: Batch(s.l(batch.x)), l=lin()), (Batch(rows(b)),)),
    "model_output": lambda b: (Lambda(lambda s, x: Output(logits=s.l(x), hidden=(x,)), l=lin()), (rows(b),), lambda out: out.logits.sum()),
    "compiled": lambda b: (torch.compile(mlp(b)[0]), (rows(b),)),
    "compiled_inside": lambda b: (Lambda(lambda s, x: s.o(s.m(x)), m=torch.compile(lin()), o=lin()), (rows(b),)),
    "routed": lambda b: (Experts(lambda i, mask, n: torch.where(mask[n])[::-1]), (rows(16 * b),)),
    "routed_by_value": lambda b: (Experts(lambda i, mask, n: (i == n).nonzero(as_tuple=True)), (rows(16 * b),)),
    "spectral": lambda b: (nn.Sequential(nn.utils.parametrizations.spectral_norm(lin()), lin()), (rows(b),)),
    "twice": lambda b: (Lambda(lambda s, x: s.l(F.relu(s.l(x))), l=lin()), (rows(b),)),
    "lstm": lambda b: (Lambda(lambda s, x: s.o(s.r(x)[0][:, -1]), r=nn.LSTM(D, 16, batch_first=True), o=lin(16, 4)), (rows(b, 4, D),)),
    "bag": lambda b: (Lambda(lambda s, x: s.o(s.e(x)), e=nn.EmbeddingBag(50, D, mode="sum"), o=lin()), (ids(b),)),
    "lazy": lambda b: (nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(4)), (rows(b),)),
    "unused": lambda b: (Lambda(lambda s, x: s.a(x), a=lin(), b=lin()), (rows(b),)),
    "weight_norm": lambda b: (nn.Sequential(nn.utils.weight_norm(lin()), nn.ReLU(), lin()), (rows(b),)),
    "two_towers": lambda b: (Lambda(lambda s, x, y: (s.a(x) @ s.b(y).t()).softmax(-1), a=mlp(b)[0], b=mlp(b)[0]), (rows(b), rows(b))),
}


def named(models):
    for name, function in models.items():
        function.__name__ = name
    return list(models.values())


ALL = named(MODELS) + [mlp, u_net, gpt, vit, seq2seq, fused_attention, masked_attention, grouped_attention, flex,
                       rope, fixed_point, frozen, lora, recomputed, reentrant, named_tuple, other_first_name,
                       routed_by_mask, routed_to_hit, lstm_cell, graph_layer, straight_through, conditional, in_place,
                       buffers]
REFUSED = dict(zip(named({
    "by_value": lambda b: (Lambda(lambda s, x: s.a(x) if x.sum() > 0 else x, a=lin()), (rows(b),)),
    "by_list": lambda b: (Lambda(lambda s, x: s.a(x)[: int(x.argmax())], a=lin()), (rows(b),)),
    "wrong_shape": lambda b: (lin(3, 4), (rows(b),)),
}), ("torch_zoo.py:", "torch_zoo.py:", "RuntimeError")))
