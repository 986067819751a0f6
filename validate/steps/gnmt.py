"""A model in small operations, as the generator gnmt has it."""
import torch
from torch import nn


def unroll(cell, inputs, reverse=False):
    state, outputs = None, []
    for x in reversed(inputs) if reverse else inputs:
        state = cell(x, state)
        outputs.append(state[0])
    return outputs[::-1] if reverse else outputs


class Gnmt(nn.Module):
    """After GNMT (Wu et al., 2016), its cells unrolled. First encoder layer in both directions; residual layers above the
    second; additive attention of the first decoder layer, whose context all layers above read."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.forwards, self.backwards = nn.LSTMCell(width, width), nn.LSTMCell(width, width)
        self.encoder = nn.ModuleList(nn.LSTMCell(2 * width if i == 0 else width, width) for i in range(layers - 1))
        self.decoder = nn.ModuleList(nn.LSTMCell(width if i == 0 else 2 * width, width) for i in range(layers))
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.score, self.classify = nn.Linear(width, 1, bias=False), nn.Linear(width, vocabulary)

    def upper(self, cells, x, contexts=None):
        for i, cell in enumerate(cells):
            y = unroll(cell, [torch.cat(pair, 1) for pair in zip(x, contexts)] if contexts else x)
            x = [a + b for a, b in zip(x, y)] if i > 0 else y
        return torch.stack(x, 1)

    def forward(self, source, target):
        x = list(self.source(source).unbind(1))
        both = zip(unroll(self.forwards, x), unroll(self.backwards, x, True))
        encoded = self.upper(self.encoder, [torch.cat(pair, 1) for pair in both])
        keys = self.key(encoded)
        x, contexts = unroll(self.decoder[0], list(self.target(target).unbind(1))), []
        for query in x:
            weights = torch.softmax(self.score(torch.tanh(self.query(query).unsqueeze(1) + keys)), 1)
            contexts.append((weights * encoded).sum(1))
        return self.classify(self.upper(self.decoder[1:], x, contexts))
