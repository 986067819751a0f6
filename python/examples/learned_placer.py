#!/usr/bin/env python3
"""A placer that learns: a policy over the graph, trained in this process against the simulator.

A graph network (three rounds of messages between parents and children) describes each unit: an op, or
a colocation group. The units are then placed in topological order. For each device the policy sees
when the unit would start and end there, the load, the memory and what it would have to receive. It
begins close to the rule of list scheduling (the device where the unit ends first) and learns by
REINFORCE: a placement drawn from it is rewarded by its simulated step, against the mean of its batch.

    python3 python/examples/learned_placer.py                     # a random graph of 100 ops, within a minute
    python3 python/examples/learned_placer.py model.trace.json --devices 4 --memory '8 GiB' --updates 300

It is here to show what learning costs and brings, beside heuristics and a search that simulates as
often. Needs PyTorch (Debian: python3-torch); without it, it says so and ends."""
import argparse
import sys
import time

import baechi

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: PyTorch is not installed (Debian: apt-get install python3-torch)")
    sys.exit(0)

UNIT_FEATURES, DEVICE_FEATURES, WIDTH = 6, 6, 32


class Units:
    """The graph as units (ops, or whole colocation groups) in the order of their first ops."""

    def __init__(self, problem):
        self.num_devices = problem.num_devices
        groups, self.unit_of = {}, []
        for op in range(problem.num_ops):
            group = int(problem.groups[op])
            key = ("group", group) if group else ("op", op)
            self.unit_of.append(groups.setdefault(key, len(groups)))
        count = len(groups)
        times = [[0] * self.num_devices for _ in range(count)]
        self.bytes = [0] * count
        by_device = problem.compute_ns_by_device
        for op, unit in enumerate(self.unit_of):
            for d in range(self.num_devices):
                times[unit][d] += int(by_device[op * self.num_devices + d])
            self.bytes[unit] += int(problem.persistent_bytes[op])
        self.times = torch.tensor(times, dtype=torch.float32)
        # Parents of a unit, with the time of the longest transfer from each. A group can also read from
        # units that come later in the order: the schedule ignores these edges, the simulator does not.
        sent = {}
        for src, dst, tensor in zip(problem.edge_src, problem.edge_dst, problem.edge_tensor):
            edge = self.unit_of[src], self.unit_of[dst]
            if edge[0] < edge[1] and self.num_devices > 1:
                sent[edge] = max(sent.get(edge, 0), problem.transfer_ns(int(tensor), 0, 1))
        self.parents = [[] for _ in range(count)]
        for (src, dst), ns in sorted(sent.items()):
            self.parents[dst].append((src, ns))
        self.edges = torch.tensor(sorted(sent), dtype=torch.long).reshape(-1, 2)
        self.limits = torch.tensor([float(b) for b in problem.memory_bytes])
        self.parent_ids = [torch.tensor([p for p, _ in ps], dtype=torch.long) for ps in self.parents]
        self.parent_ns = [torch.tensor([float(ns) for _, ns in ps]) for ps in self.parents]
        self.features, self.critical_path = self.describe(sent)

    def describe(self, sent):
        """Features without a scale [units, UNIT_FEATURES], and the critical path in ns."""
        mean = self.times.mean(dim=1).tolist()
        count = len(mean)
        top, bottom, received, given = [0.0] * count, list(mean), [0.0] * count, [0.0] * count
        for u in range(count):
            for p, ns in self.parents[u]:
                top[u] = max(top[u], top[p] + mean[p])
                received[u] += ns
                given[p] += ns
        for u in reversed(range(count)):
            for p, _ in self.parents[u]:
                bottom[p] = max(bottom[p], mean[p] + bottom[u])
        path = max(max(bottom), 1.0)
        traffic, longest = max(sum(sent.values()), 1.0), max(max(mean), 1.0)
        memory = float(self.limits.max())
        rows = [[mean[u] / longest, top[u] / path, bottom[u] / path, received[u] / traffic * count,
                 given[u] / traffic * count, self.bytes[u] / memory] for u in range(count)]
        return torch.tensor(rows), path

    def placement(self, devices):
        """A device of each unit as a device of each op."""
        return [int(devices[u]) for u in self.unit_of]


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(UNIT_FEATURES, WIDTH)
        self.rounds = nn.ModuleList(nn.Linear(3 * WIDTH, WIDTH) for _ in range(3))
        self.score = nn.Sequential(nn.Linear(WIDTH + DEVICE_FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
        self.rule = nn.Linear(DEVICE_FEATURES, 1)
        with torch.no_grad():  # the earlier the end, the likelier; the network begins with no opinion
            self.rule.weight.zero_()
            self.rule.weight[0, 0], self.rule.weight[0, 4] = -8.0, -8.0
            self.score[2].weight.mul_(0.1)

    def describe(self, units):
        """[units, WIDTH]"""
        h = torch.relu(self.enter(units.features))
        src, dst = units.edges[:, 0], units.edges[:, 1]
        for layer in self.rounds:
            from_parents = mean_over(h[src], dst, len(h))
            from_children = mean_over(h[dst], src, len(h))
            h = h + torch.relu(layer(torch.cat([h, from_parents, from_children], dim=1)))
        return h

    def logits(self, described, device_features):
        """described [..., WIDTH], device_features [..., devices, DEVICE_FEATURES] -> [..., devices]"""
        wide = described.unsqueeze(-2).expand(*device_features.shape[:-1], WIDTH)
        scored = self.score(torch.cat([wide, device_features], dim=-1))
        return (scored + self.rule(device_features)).squeeze(-1)


def mean_over(rows, index, count):
    total = torch.zeros(count, rows.shape[1]).index_add_(0, index, rows)
    how_many = torch.zeros(count).index_add_(0, index, torch.ones(len(index)))
    return total / how_many.clamp(min=1).unsqueeze(1)


@torch.no_grad()
def roll_out(policy, units, samples, greedy=False):
    """Places all units, `samples` times: the devices [units, samples], what the policy saw
    [units, samples, devices, DEVICE_FEATURES] and which devices had no room."""
    described = policy.describe(units)
    count, devices = units.times.shape
    free, load = torch.zeros(samples, devices), torch.zeros(samples, devices)
    used, received = torch.zeros(samples, devices), torch.zeros(samples, devices)
    end, home = torch.zeros(samples, count), torch.zeros(samples, count, dtype=torch.long)
    every, share = torch.arange(devices), units.times.mean(dim=1).sum() / devices
    seen, full_ones = [], []
    for u in range(count):
        parents, traffic = units.parent_ids[u], torch.zeros(samples, devices)
        ready, arrived = traffic, received
        if len(parents):  # a device receives one tensor at a time
            elsewhere = home[:, parents].unsqueeze(2) != every  # [samples, parents, devices]
            ends = end[:, parents].unsqueeze(2)
            traffic = (elsewhere * units.parent_ns[u].view(1, -1, 1)).sum(dim=1)
            arrived = torch.maximum((ends * elsewhere).amax(dim=1), received) + traffic
            ready = torch.maximum((ends * ~elsewhere).amax(dim=1), arrived * (traffic > 0))
            arrived = torch.where(traffic > 0, arrived, received)
        start = torch.maximum(ready, free)
        ends = start + units.times[u]
        filled = (used + units.bytes[u]) / units.limits
        relative = ((ends - ends.amin(dim=1, keepdim=True)) / units.critical_path).clamp(max=1.0)
        idle = ((start - free) / units.critical_path).clamp(max=1.0)
        sent = (traffic / units.critical_path).clamp(max=1.0)
        features = torch.stack([relative, idle, load / share, filled, sent, (load == 0).float()], dim=2)
        full = (filled > 1.0) & ~(filled > 1.0).all(dim=1, keepdim=True)
        logits = policy.logits(described[u].expand(samples, WIDTH), features).masked_fill(full, -1e9)
        choice = logits.argmax(dim=1) if greedy else torch.distributions.Categorical(logits=logits).sample()
        seen.append(features)
        full_ones.append(full)
        picked = choice.unsqueeze(1)
        home[:, u], end[:, u] = choice, ends.gather(1, picked).squeeze(1)
        free.scatter_(1, picked, ends.gather(1, picked))
        received.scatter_(1, picked, arrived.gather(1, picked))
        load.scatter_add_(1, picked, units.times[u].expand(samples, -1).gather(1, picked))
        used.scatter_add_(1, picked, torch.full((samples, 1), float(units.bytes[u])))
    return home.T, torch.stack(seen), torch.stack(full_ones)


class Simulator:
    """The step of a placement, relative to `reference_us`; counts what it simulates."""

    def __init__(self, graph, cluster, reference_us):
        self.graph, self.cluster, self.reference = graph, cluster, reference_us
        self.evaluations, self.best_us, self.best = 0, float("inf"), None

    def __call__(self, devices):
        self.evaluations += 1
        step = baechi.simulate(self.graph, self.cluster, devices)
        if not step.ok:
            return 2.0  # out of memory: as bad as twice the reference
        if step.step_time_us < self.best_us:
            self.best_us, self.best = step.step_time_us, devices
        return step.step_time_us / self.reference


def train(units, simulator, updates, samples, seed):
    """Returns the best placement that was simulated, the likeliest one's step, and the mean of the
    first and the last batch, both over the reference."""
    torch.manual_seed(seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)
    means = []
    for update in range(updates):
        left = 1.0 - update / updates
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 + 18e-3 * left
        devices, seen, full = roll_out(policy, units, samples)
        steps = torch.tensor([simulator(units.placement(devices[:, s])) for s in range(samples)])
        means.append(float(steps.mean()))
        advantage = (steps.mean() - steps) / (steps.std() + 1e-6)
        described = policy.describe(units).unsqueeze(1).expand(-1, samples, -1)
        logits = policy.logits(described, seen).masked_fill(full, -1e9)
        drawn = torch.distributions.Categorical(logits=logits)
        loss = -(drawn.log_prob(devices) * advantage).sum(dim=0).mean() / len(units.times) ** 0.5
        loss = loss - 0.02 * left * drawn.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    devices, _, _ = roll_out(policy, units, 1, greedy=True)
    likeliest = simulator(units.placement(devices[:, 0]))
    return simulator.best, likeliest, means


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", help="a graph in any format that an importer reads")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--memory", default="1 GiB")
    parser.add_argument("--kind", default="", help="device type, for a graph without times")
    parser.add_argument("--bandwidth", default="5 GB/s")
    parser.add_argument("--latency", default="5 us")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--samples", type=int, default=16, help="placements of an update")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the same numbers on any machine of a kind
    graph = baechi.read(arguments.graph) if arguments.graph else baechi.generate("layered", ops=100, width=8, degree=2.0, bytes="256 KiB", seed=9)
    cluster = baechi.Cluster(devices=arguments.devices, memory=arguments.memory, kind=arguments.kind,
                             bandwidth=arguments.bandwidth, latency=arguments.latency)
    bound, rows = baechi.bound(graph, cluster), []

    def row(name, step_us, evaluations, seconds):
        rows.append((name, step_us))
        print(f"{name:24} {step_us:10.1f} {step_us / bound:8.3f} {evaluations:12} {seconds:9.2f}")

    def ask(name, placer):
        begin = time.process_time()
        placement = baechi.place(graph, cluster, placer=placer, seed=arguments.seed)
        seconds = time.process_time() - begin
        step = baechi.simulate(graph, cluster, placement)
        row(name, step.step_time_us, int(placement.facts.get("evaluations", 0)) or "-", seconds)
        return step.step_time_us

    print(f"{graph} on {cluster}")
    print(f"{'placer':24} {'step, us':>10} {'/ bound':>8} {'evaluations':>12} {'CPU s':>9}")
    reference = ask("m_etf", "m_etf")
    ask("coarsen", "coarsen")
    ask("auto", "auto")
    wanted = arguments.updates * arguments.samples
    ask("search", f"search:evaluations={wanted}")

    simulator, trained = Simulator(graph, cluster, reference), {}

    def policy(problem):
        units = Units(problem)
        best, trained["likeliest"], trained["means"] = train(
            units, simulator, arguments.updates, arguments.samples, arguments.seed)
        if best is None:
            raise baechi.InfeasibleError(f"none of {simulator.evaluations} placements fits in memory")
        return best

    begin = time.process_time()
    baechi.place(graph, cluster, placer=policy)
    seconds = time.process_time() - begin
    row("policy, likeliest", trained["likeliest"] * reference, simulator.evaluations, seconds)
    row("policy, best simulated", simulator.best_us, simulator.evaluations, seconds)
    first, last = trained["means"][0], trained["means"][-1]
    print(f"mean of a batch over m_etf: {first:.3f} at first, {last:.3f} at last; "
          f"best: {min(rows, key=lambda r: r[1])[0]}")


if __name__ == "__main__":
    main()
