"""ResNet-50, GPT-2 and BERT in plain PyTorch, for tools/baechi_torch.py: each function returns (model, inputs, loss).

    python3 -m baechi_torch scenarios/examples/torch_models.py:resnet50 --batch 32 --training -o resnet50.trace.json.gz
"""
import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1; the stride is in the 3x3 (He et al. 2015, v1.5)."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks=(3, 4, 6, 3), classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels = 64
        for stage, count in enumerate(blocks):
            width, layer = 64 << stage, []
            for block in range(count):
                layer.append(Bottleneck(channels, width, 2 if block == 0 and stage > 0 else 1))
                channels = 4 * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layer))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Attention(nn.Module):
    def __init__(self, features, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.output = (nn.Linear(features, features) for _ in range(4))

    def forward(self, x):
        batch, length, features = x.shape[0], x.shape[1], x.shape[2]

        def heads(y):
            return y.view(batch, length, self.heads, features // self.heads).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = torch.matmul(q, k.transpose(2, 3)) * (features // self.heads) ** -0.5
        y = torch.matmul(torch.softmax(scores, 3), v)  # a mask would not change the work
        return self.output(y.transpose(1, 2).reshape(batch, length, features))


class Block(nn.Module):
    """`first`: norms before attention and feed-forward, as GPT-2; else after them, as BERT."""

    def __init__(self, features, heads, first):
        super().__init__()
        self.first = first
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.attention = Attention(features, heads, causal=first)
        self.wide, self.narrow = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.gelu, self.drop = nn.GELU(), nn.Dropout(0.1)

    def forward(self, x):
        if self.first:
            x = x + self.drop(self.attention(self.norm1(x)))
            return x + self.drop(self.narrow(self.gelu(self.wide(self.norm2(x)))))
        x = self.norm1(x + self.drop(self.attention(x)))
        return self.norm2(x + self.drop(self.narrow(self.gelu(self.wide(x)))))


class Gpt2(nn.Module):
    def __init__(self, words=50257, length=1024, features=768, heads=12, layers=12):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, features), nn.Embedding(length, features)
        self.register_buffer("numbers", torch.arange(length).unsqueeze(0), persistent=False)
        self.blocks = nn.Sequential(*(Block(features, heads, first=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(features)
        self.head = nn.Linear(features, words, bias=False)
        self.head.weight = self.words.weight  # tied

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(self.numbers)
        return self.head(self.norm(self.blocks(x)))


class Bert(nn.Module):
    """The encoder and its pooler."""

    def __init__(self, words=30522, length=512, features=768, heads=12, layers=12):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, features), nn.Embedding(length, features)
        self.kinds, self.norm = nn.Embedding(2, features), nn.LayerNorm(features)
        self.layers = nn.Sequential(*(Block(features, heads, first=False) for _ in range(layers)))
        self.pooler = nn.Linear(features, features)

    def forward(self, tokens, kinds, positions):
        x = self.norm(self.words(tokens) + self.kinds(kinds) + self.positions(positions))
        return torch.tanh(self.pooler(self.layers(x)[:, 0]))


def resnet50(batch):
    labels = torch.zeros(batch, dtype=torch.long, device="meta")
    return ResNet(), (torch.zeros(batch, 3, 224, 224),), lambda out: F.cross_entropy(out, labels)


def gpt2(batch):
    tokens = torch.zeros(batch, 1024, dtype=torch.long)
    words = torch.zeros(batch * 1024, dtype=torch.long, device="meta")
    return Gpt2(), (tokens,), lambda out: F.cross_entropy(out.view(batch * 1024, 50257), words)


def bert(batch):
    tokens = torch.zeros(batch, 128, dtype=torch.long)
    return Bert(), (tokens, tokens, tokens), lambda out: out.sum()
