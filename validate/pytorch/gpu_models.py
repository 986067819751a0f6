"""Three models of a GPU's size, for ./dev torch OUT validate/pytorch/gpu_models.py --device cuda; their layers are those of models.py."""
import torch
from torch import nn

from models import Block, Residual, conv_norm


def names():
    return ["gpt", "resnet", "wide_mlp"]


class Embedded(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(length, width))

    def forward(self, x):
        return self.tokens(x) + self.positions


def bottleneck(inputs, width, stride=1):
    """A block of ResNet-50."""
    shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
    last = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
    same = inputs == 4 * width
    return Residual(conv_norm(inputs, width, 1), conv_norm(width, width, 3, stride), *last, shortcut=None if same else shortcut)


def layers_of(name):
    torch.manual_seed(0)
    if name == "gpt":  # 12 layers of 1024
        return [Embedded(32000, 512, 1024)] + [Block(1024, 16) for _ in range(12)] + [nn.Sequential(nn.LayerNorm(1024), nn.Linear(1024, 32000))]
    if name == "wide_mlp":
        return [nn.Sequential(nn.Linear(8192, 8192), nn.ReLU()) for _ in range(8)]
    layers, inputs = [nn.Sequential(conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))], 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            layers.append(bottleneck(inputs, width, 2 if width > 64 and block == 0 else 1))
            inputs = 4 * width
    return layers + [nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))]


def batch_of(name):
    return {"gpt": 16, "resnet": 64, "wide_mlp": 4096}[name]


def input_of(name, batch):
    torch.manual_seed(1)
    if name == "gpt":
        return torch.randint(0, 32000, (batch, 512))
    return torch.randn(batch, 3, 224, 224) if name == "resnet" else torch.randn(batch, 8192)


def cuts_of(name):
    return {"gpt": [5, 7], "resnet": [5, 9], "wide_mlp": [4]}[name]
