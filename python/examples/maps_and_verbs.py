"""A device map and the stages of a pipeline for a PyTorch model in memory, and the program's verbs as functions."""
import os
import sys
import tempfile

import baechi

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: PyTorch is not installed (Debian: apt-get install python3-torch)")
    sys.exit(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


model = nn.Sequential(nn.Embedding(1000, 256), *(Block(256) for _ in range(6)), nn.Linear(256, 1000))  # 14 MiB
words = torch.zeros(4, 16, dtype=torch.long)
gpus = baechi.device_map(model, (words,), max_memory={0: "10MiB", 3: "10MiB"}, no_split_module_classes=["Block"])
print(gpus)
assert set(gpus.values()) == {0, 3}
with_host = baechi.device_map(model, (words,), max_memory={0: "8MiB", "cpu": "1GiB"}, no_split_module_classes=["Block"])
print(with_host)
assert set(with_host.values()) == {0, "cpu"}
with_disk = baechi.device_map(model, (words,), max_memory={0: "8MiB", "cpu": "5MiB", "disk": "1TB"}, no_split_module_classes=["Block"])
assert {0, "disk"} <= set(with_disk.values()), with_disk
blocks = baechi.device_map(model, (words,), max_memory={1: "6MiB", 0: "10MiB", "cpu": 0}, no_split_module_classes="Block")
bytes_on = {gpu: sum(p.numel() * 4 for name, p in model.named_parameters() if blocks[name.split(".")[0]] == gpu) for gpu in (0, 1)}
assert bytes_on[1] <= 6 << 20 and bytes_on[0] <= 10 << 20 and sum(bytes_on.values()) > 14e6, bytes_on


class Own(nn.Module):
    """Without inner modules."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(64, 64)), nn.Parameter(torch.zeros(64, 64))

    def forward(self, x):
        return torch.relu(x @ self.first) @ self.second


own = baechi.device_map(Own(), (torch.zeros(2, 64),), max_memory={0: "1KiB", 1: "1MiB"})
assert own == {"": 1}, own
for limits, error in (({0: "2MiB", 1: "2MiB"}, baechi.InfeasibleError), ({0: "8MiB", "disk": "1GiB"}, baechi.InputError)):
    try:
        baechi.device_map(model, (words,), max_memory=limits)
        raise AssertionError(f"a map within {limits}")
    except error as why:
        print(why)
stages = baechi.split(model, (words,), stages=3, training=True)
print(stages["split_spec"], stages["schedule"])
assert stages["stages"] == 3 and len(stages["split_spec"]) == 2

graph = baechi.generate("layered", ops=30)
cluster = dict(devices=2, memory="1 GiB", bandwidth="5 GB/s", latency="10 us")
placement = baechi.place(graph, baechi.Cluster(**cluster))
explained = baechi.explain(graph, placement, **cluster)
assert explained["step_time_us"] == baechi.simulate(graph, baechi.Cluster(**cluster), placement).step_time_us
assert baechi.plan("llama:size=7b", devices=8, batch=8, **{"as": "h100"})["plans"]
with tempfile.TemporaryDirectory() as folder:
    results = os.path.join(folder, "results")
    rows = baechi.run("first", output=results, quiet=True)
    print(f"{len(rows)} runs of {baechi.compare(results)['points']} points")
