#!/usr/bin/env python3
"""Record training steps of five models with PyTorch's profiler. Needs PyTorch alone.

usage: record_pytorch.py OUT [--models NAME,...] [--steps 3] [--device cuda|cpu] [--tiny] [--seconds 240]

OUT gets, per model:
  NAME.kineto.json.gz     times of some steps (Kineto; shapes, memory and stacks off)
  NAME.et.json.gz         one step's tensors and dependencies (ExecutionTraceObserver) and
  NAME.K.step.json.gz     the times of other steps of the same run, one each: baechi joins them
                          (--importer 'pytorch:kineto=NAME.*.step.json.gz,step_time=...')
  NAME.provenance.json    what ran where, the step time without a profiler, and what the files hold
Parameters are updated one by one (foreach=False), so that each update is an op of its own.
--tiny is for trying this script without a GPU: the times mean nothing.
Exit codes: 0 done; 1 something failed or came out too large; 77 no GPU, or no PyTorch.
"""
import argparse, datetime, gzip, hashlib, json, os, platform, statistics, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "pytorch"), os.path.join(HERE, "..", "scenarios", "examples")]
try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    from record import profiler, record_calls, record_times, seconds_of
    from torch_models import ResNet
except ImportError as error:
    print(f"skipped: no PyTorch: {error}", file=sys.stderr)
    sys.exit(77)

FILE_LIMIT = 2_000_000  # bytes, compressed
WARM_UP = 5


# ---- Inception-V3 (Szegedy et al., CVPR 2016), with its auxiliary classifier


def conv_norm(inputs, outputs, kernel, **options):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, bias=False, **options), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Branches(nn.Module):
    """Branches side by side, concatenated; a branch may be a list: its first part feeds the others."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(nn.ModuleList(b) if isinstance(b, list) else b for b in branches)

    def forward(self, x):
        outputs = []
        for branch in self.branches:
            if isinstance(branch, nn.ModuleList):
                stem = branch[0](x)
                outputs += [part(stem) for part in branch[1:]]
            else:
                outputs.append(branch(x))
        return torch.cat(outputs, 1)


def pooled(inputs, outputs):
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), conv_norm(inputs, outputs, 1))


def inception_a(n, pool):
    return Branches(
        conv_norm(n, 64, 1),
        nn.Sequential(conv_norm(n, 48, 1), conv_norm(48, 64, 5, padding=2)),
        nn.Sequential(conv_norm(n, 64, 1), conv_norm(64, 96, 3, padding=1), conv_norm(96, 96, 3, padding=1)),
        pooled(n, pool),
    )


def inception_b(n):
    return Branches(
        conv_norm(n, 384, 3, stride=2),
        nn.Sequential(conv_norm(n, 64, 1), conv_norm(64, 96, 3, padding=1), conv_norm(96, 96, 3, stride=2)),
        nn.MaxPool2d(3, 2),
    )


def wide(inputs, outputs):
    return conv_norm(inputs, outputs, (1, 7), padding=(0, 3))


def tall(inputs, outputs):
    return conv_norm(inputs, outputs, (7, 1), padding=(3, 0))


def inception_c(n, c):
    return Branches(
        conv_norm(n, 192, 1),
        nn.Sequential(conv_norm(n, c, 1), wide(c, c), tall(c, 192)),
        nn.Sequential(conv_norm(n, c, 1), tall(c, c), wide(c, c), tall(c, c), wide(c, 192)),
        pooled(n, 192),
    )


def inception_d(n):
    return Branches(
        nn.Sequential(conv_norm(n, 192, 1), conv_norm(192, 320, 3, stride=2)),
        nn.Sequential(conv_norm(n, 192, 1), wide(192, 192), tall(192, 192), conv_norm(192, 192, 3, stride=2)),
        nn.MaxPool2d(3, 2),
    )


def inception_e(n):
    def ends():
        return [
            conv_norm(384, 384, (1, 3), padding=(0, 1)),
            conv_norm(384, 384, (3, 1), padding=(1, 0)),
        ]

    return Branches(
        conv_norm(n, 320, 1),
        [conv_norm(n, 384, 1)] + ends(),
        [nn.Sequential(conv_norm(n, 448, 1), conv_norm(448, 384, 3, padding=1))] + ends(),
        pooled(n, 192),
    )


class InceptionV3(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower = nn.Sequential(
            conv_norm(3, 32, 3, stride=2), conv_norm(32, 32, 3), conv_norm(32, 64, 3, padding=1),
            nn.MaxPool2d(3, 2), conv_norm(64, 80, 1), conv_norm(80, 192, 3), nn.MaxPool2d(3, 2),
            inception_a(192, 32), inception_a(256, 64), inception_a(288, 64), inception_b(288),
            inception_c(768, 128), inception_c(768, 160), inception_c(768, 160), inception_c(768, 192),
        )  # fmt: skip
        self.auxiliary = nn.Sequential(
            nn.AvgPool2d(5, 3), conv_norm(768, 128, 1), conv_norm(128, 768, 5),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(768, 1000),
        )  # fmt: skip
        self.upper = nn.Sequential(
            inception_d(768), inception_e(1280), inception_e(2048),
            nn.AdaptiveAvgPool2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(2048, 1000),
        )  # fmt: skip

    def forward(self, x):
        x = self.lower(x)
        return self.upper(x), self.auxiliary(x)


# ---- a sequence-to-sequence model after GNMT (Wu et al., 2016): its cells unrolled


def unroll(cell, inputs, reverse=False):
    state, outputs = None, []
    for x in reversed(inputs) if reverse else inputs:
        state = cell(x, state)
        outputs.append(state[0])
    return outputs[::-1] if reverse else outputs


class Gnmt(nn.Module):
    """First encoder layer in both directions; residual layers above the second; additive attention of
    the first decoder layer, whose context all layers above read."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.forwards, self.backwards = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
        self.encoder = nn.ModuleList(
            nn.LSTMCell(2 * width if i == 0 else width, width) for i in range(layers - 1)
        )
        self.decoder = nn.ModuleList(
            nn.LSTMCell(width if i == 0 else 2 * width, width) for i in range(layers)
        )
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.score, self.classify = nn.Linear(width, 1, bias=False), nn.Linear(width, vocabulary)

    def encode(self, tokens):
        x = list(self.source(tokens).unbind(1))
        x = [torch.cat(pair, 1) for pair in zip(unroll(self.forwards, x), unroll(self.backwards, x, True))]
        for i, cell in enumerate(self.encoder):
            y = unroll(cell, x)
            x = [a + b for a, b in zip(x, y)] if i > 0 else y
        return torch.stack(x, 1)

    def forward(self, source, target):
        encoded = self.encode(source)
        keys = self.key(encoded)
        x, contexts = unroll(self.decoder[0], list(self.target(target).unbind(1))), []
        for query in x:
            weights = torch.softmax(self.score(torch.tanh(self.query(query).unsqueeze(1) + keys)), 1)
            contexts.append((weights * encoded).sum(1))
        for i, cell in enumerate(self.decoder[1:]):
            y = unroll(cell, [torch.cat(pair, 1) for pair in zip(x, contexts)])
            x = [a + b for a, b in zip(x, y)] if i > 0 else y
        return self.classify(torch.stack(x, 1))


# ---- BERT-base (Devlin et al., 2019) and GPT-2 small (Radford et al., 2019)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if self.causal:
            scores = scores.masked_fill(mask, float("-inf"))
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm_first = causal  # GPT-2 normalizes before, BERT after
        self.attention = Attention(width, heads, causal)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm_1(x), mask))
            return x + self.dropout(self.feed(self.norm_2(x)))
        x = self.norm_1(x + self.dropout(self.attention(x, mask)))
        return self.norm_2(x + self.dropout(self.feed(x)))


class Transformer(nn.Module):
    """Predicts a token at each place; the output weights are those of the embedding."""

    def __init__(self, vocabulary, length, width, heads, layers, causal):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal) for _ in range(layers))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.register_buffer("place", torch.arange(length))
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))
        self.causal = causal

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(self.place)
        x = self.dropout(x if self.causal else self.norm(x))
        for block in self.blocks:
            x = block(x, self.mask)
        if self.causal:
            x = self.norm(x)
        return F.linear(x, self.tokens.weight)


# ---- what is recorded


def classes(outputs, labels):
    return F.cross_entropy(outputs, labels)


def classes_and_auxiliary(outputs, labels):
    return F.cross_entropy(outputs[0], labels) + 0.4 * F.cross_entropy(outputs[1], labels)


def tokens_of(outputs, labels):
    return F.cross_entropy(outputs.flatten(0, 1), labels.flatten())


def build(name, tiny, device):
    """The model, its inputs, labels, and loss; what is said of the inputs; the optimizer's kind."""
    batch = {"resnet50": 32, "inception_v3": 32, "gnmt": 64, "bert_base": 16, "gpt2_small": 8}[name]
    batch = 2 if tiny else batch

    def numbers(high, *shape):
        return torch.randint(0, high, shape, device=device)

    if name in ("resnet50", "inception_v3"):
        side = 299 if name == "inception_v3" else 64 if tiny else 224
        model = InceptionV3() if name == "inception_v3" else ResNet()
        inputs, labels = (torch.randn(batch, 3, side, side, device=device),), numbers(1000, batch)
        loss = classes_and_auxiliary if name == "inception_v3" else classes
        return model, inputs, labels, loss, f"{batch} x 3 x {side} x {side}", "SGD"
    if name == "gnmt":
        length, vocabulary, width, layers = (5, 100, 16, 3) if tiny else (20, 32000, 1024, 4)
        inputs = numbers(vocabulary, batch, length), numbers(vocabulary, batch, length)
        said = f"{batch} x {length} and {batch} x {length} tokens of {vocabulary}, width {width}, {layers} + {layers} layers"
        return Gnmt(vocabulary, width, layers), inputs, numbers(vocabulary, batch, length), tokens_of, said, "Adam"
    causal = name == "gpt2_small"
    vocabulary, length = (50257, 512) if causal else (30522, 128)
    width, heads, layers = 768, 12, 12
    if tiny:
        vocabulary, length, width, heads, layers = 100, 16, 32, 2, 2
    model = Transformer(vocabulary, length, width, heads, layers, causal)
    said = f"{batch} x {length} tokens of {vocabulary}, width {width}, {layers} layers"
    return model, (numbers(vocabulary, batch, length),), numbers(vocabulary, batch, length), tokens_of, said, "Adam"


NAMES = ["resnet50", "inception_v3", "gnmt", "bert_base", "gpt2_small"]


class Training:
    def __init__(self, name, tiny, device):
        torch.manual_seed(0)
        self.device = device
        model, self.inputs, self.labels, self.loss, self.said, self.optimizer_kind = build(name, tiny, device)
        self.model = model.to(device).train()
        options = {"lr": 1e-3, "foreach": False}
        parameters = self.model.parameters()
        if self.optimizer_kind == "SGD":
            self.optimizer = torch.optim.SGD(parameters, momentum=0.9, **options)
        else:
            self.optimizer = torch.optim.Adam(parameters, **options)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(*self.inputs), self.labels).backward()
        self.optimizer.step()
        if self.device == "cuda":
            torch.cuda.synchronize()


def record_steps(training, steps, path):
    """Some steps, each within a range `step`."""
    with profiler(training.device) as recorded:
        for _ in range(steps):
            with torch.profiler.record_function("step"):
                training.step()
    recorded.export_chrome_trace(path)


def compress(source, target):
    with open(source, "rb") as file:
        data = file.read()
    with open(target, "wb") as file:
        file.write(gzip.compress(data, 9, mtime=0))
    return {
        "bytes": os.path.getsize(target),
        "sha256": hashlib.sha256(open(target, "rb").read()).hexdigest(),
        "uncompressed_bytes": len(data),
    }


def contents(trace):
    """How many events of each category a Chrome trace has."""
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    counts = {}
    for event in events:
        if event.get("ph") == "X":
            category = event.get("cat", "none")
            counts[category] = counts.get(category, 0) + 1
    return counts


def fact(ask):
    """What `ask` returns. What a version of PyTorch refuses to say must not cost the recording."""
    try:
        return ask()
    except Exception as error:
        return f"unknown: {type(error).__name__}"


def machine(device):
    facts = {"python": platform.python_version(), "torch": torch.__version__, "device": device}
    if device == "cuda":
        facts.update(
            gpu=fact(torch.cuda.get_device_name),
            cuda=torch.version.cuda,
            cudnn=fact(torch.backends.cudnn.version),
            tf32_matmul=fact(lambda: torch.backends.cuda.matmul.allow_tf32),
            tf32_cudnn=fact(lambda: torch.backends.cudnn.allow_tf32),
        )
    return facts


def record(name, arguments):
    """Writes a model's four files and returns whether all are as they should be."""
    begin = time.perf_counter()
    training = Training(name, arguments.tiny, arguments.device)
    seconds_of(training.step, 1 if arguments.tiny else WARM_UP)
    if arguments.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    without = seconds_of(training.step, 3 if arguments.tiny else 20)
    said = {
        "format": "baechi-recording", "version": 1, "model": name, "input": training.said,
        "optimizer": training.optimizer_kind + (", momentum 0.9" if training.optimizer_kind == "SGD" else ""),
        "precision": "float32", "date": datetime.date.today().isoformat(), "tiny": arguments.tiny,
        "machine": machine(arguments.device),
        "parameters": sum(p.numel() for p in training.model.parameters()),
        "step_seconds_without_profiler": {"median": statistics.median(without), "all": without},
    }  # fmt: skip
    if arguments.device == "cuda":
        said["peak_bytes_allocated"] = torch.cuda.max_memory_allocated()
    target = os.path.join(arguments.out, name)
    with tempfile.TemporaryDirectory() as folder:
        with profiler(arguments.device):  # not kept: the first profiled step also loads the profiler
            training.step()
        at = lambda file: os.path.join(folder, file)
        record_calls(training.step, at("et"))
        kinds = ["et"] + [f"{k}.step" for k in range(arguments.steps)]
        for k in range(arguments.steps):
            seconds_of(training.step, 1)
            record_times(training.step, at(f"{k}.step"), arguments.device)
        files = {f"{name}.{kind}.json.gz": compress(at(kind), f"{target}.{kind}.json.gz") for kind in kinds}
        for steps in range(arguments.steps, 0, -1):  # fewer if they come out too large
            record_steps(training, steps, at("kineto"))
            files[f"{name}.kineto.json.gz"] = compress(at("kineto"), f"{target}.kineto.json.gz")
            if files[f"{name}.kineto.json.gz"]["bytes"] <= FILE_LIMIT:
                break
        said["steps"] = steps
        load = lambda file: json.loads(open(at(file), encoding="utf-8", errors="replace").read(), strict=False)
        said["events"] = contents(load("kineto"))
    said["files"] = files
    with open(target + ".provenance.json", "w") as file:
        json.dump(said, file, indent=1)
        file.write("\n")
    good = all(f["bytes"] <= FILE_LIMIT for f in files.values())
    if arguments.device == "cuda" and not said["events"].get("kernel"):
        print(f"{name}: the profiler saw no kernels", file=sys.stderr)
        good = False
    print(
        f"{name}: {said['parameters']:,} parameters, {1000 * statistics.median(without):.1f} ms a step, "
        f"{sum(said['events'].values())} events in {steps} steps, "
        f"{sum(f['bytes'] for f in files.values()):,} bytes, {time.perf_counter() - begin:.0f} s"
        + ("" if good else "  NOT GOOD")
    )
    return good


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("out")
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seconds", type=float, default=240)
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    for name in names:
        if name not in NAMES:
            parser.error(f"no model '{name}'; there are: {', '.join(NAMES)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU (--device cpu --tiny tries the script)", file=sys.stderr)
        return 77
    os.makedirs(arguments.out, exist_ok=True)
    begin, good = time.perf_counter(), True
    for name in names:
        if time.perf_counter() - begin > arguments.seconds:
            print(f"{name}: left out, the time is up")
            good = False
            continue
        try:
            good = record(name, arguments) and good
        except Exception as error:  # the other models are still worth having
            print(f"{name}: failed: {type(error).__name__}: {error}", file=sys.stderr)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
