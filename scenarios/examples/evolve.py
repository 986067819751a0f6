#!/usr/bin/env python3
"""Evolves the scoring formula of a placer in the arena. Standard library only; the same seed gives the same formulas.

    baechi arena --hidden 1 -o results/training             # instances to train on
    evolve.py --baechi build/release/baechi --instances results/training --seed 1 -o results/evolved
    baechi arena --placer exec:results/evolved/placer.py

The placer is a list scheduler with two formulas: which ready op is next (the largest ORDER), and which device takes it
(the least WHERE). A formula is a sum of terms, weight x feature or weight x feature x feature. A child changes one to
three terms of a parent; it lives if the arena's score of a few training instances is better. The placer asks
baechi for m_etf's placement, too, and answers the better one, so that it fails nowhere where m_etf does not."""
import argparse
import heapq
import json
import os
import random
import subprocess
import sys
import tempfile

ORDER = ["bottom", "top", "time", "out", "readers", "weights", "frees"]
WHERE = ["end", "start", "moved", "load", "weights", "fill", "away"]
BASE = {"order": [[1.0, ["bottom"]]], "where": [[1.0, ["end"]]]}


class Problem:
    """What the formulas' features are made of, ops by number."""

    def __init__(self, data):
        trace, self.devices = data["trace"], data["cluster"]["devices"]
        self.links = data["cluster"]["links"]
        self.names = [op["name"] for op in trace["ops"]]
        number = {name: v for v, name in enumerate(self.names)}
        n = len(self.names)
        self.outs = [[t["bytes"] for t in op.get("outputs", [])] for op in trace["ops"]]
        self.held = [sum(o) for o in self.outs]
        self.persistent = [op.get("persistent_bytes", 0) for op in trace["ops"]]
        self.temporary = [op.get("temporary_bytes", 0) for op in trace["ops"]]
        self.inputs = [[] for _ in range(n)]  # (producer, output, bytes)
        self.readers = [[] for _ in range(n)]
        for e in trace["edges"]:
            u, v = number[e["from"]], number[e["to"]]
            self.inputs[v].append((u, e["output"], self.outs[u][e["output"]]))
            self.readers[u].append(v)
        for e in trace["controls"]:
            u, v = number[e["from"]], number[e["to"]]
            self.inputs[v].append((u, -1, 0))
            self.readers[u].append(v)
        self.time = []
        for op in trace["ops"]:
            t = op.get("compute_us", 0.0)
            by_kind = t if isinstance(t, dict) else None
            self.time.append([(by_kind.get(d["kind"], next(iter(by_kind.values()))) if by_kind else t) / d["speed"]
                              for d in self.devices])
        group, self.unit = {}, []
        for v, op in enumerate(trace["ops"]):
            self.unit.append(group.setdefault(op["colocation"][0], v) if op.get("colocation") else v)
        self.need = {}  # unit -> weights, largest other need
        for v, u in enumerate(self.unit):
            weights, working = self.need.get(u, (0, 0))
            self.need[u] = (weights + self.persistent[v], max(working, self.held[v] + self.temporary[v]))
        pairs = [l for i, row in enumerate(self.links) for j, l in enumerate(row) if i != j] or [
            {"latency_us": 0.0, "bandwidth_bytes_per_s": 1e12}]
        self.latency = sum(l["latency_us"] for l in pairs) / len(pairs)
        self.per_byte = sum(1e6 / l["bandwidth_bytes_per_s"] for l in pairs) / len(pairs)
        self.mean = [sum(t) / len(t) for t in self.time]
        self.send = [[self.latency + b * self.per_byte for b in o] for o in self.outs]
        self.bottom, self.top = [0.0] * n, [0.0] * n
        for v in range(n):
            self.top[v] = max((self.top[u] + self.mean[u] + b * self.per_byte for u, _, b in self.inputs[v]), default=0.0)
        for v in reversed(range(n)):
            self.bottom[v] += self.mean[v]
            for u, _, b in self.inputs[v]:
                self.bottom[u] = max(self.bottom[u], self.bottom[v] + self.latency + b * self.per_byte)
        self.scale = max(self.bottom, default=1.0) or 1.0


def value(formula, features):
    total = 0.0
    for weight, names in formula:
        for name in names:
            weight *= features[name]
        total += weight
    return total


class Schedule:
    """One plan: memory over time as ops start and end, a transfer at a time per device."""

    def __init__(self, p, formulas, share, spare):
        self.p, self.formulas, self.spare = p, formulas, spare
        self.limit = [share * d["memory_bytes"] for d in p.devices]
        self.total = sum(self.limit)
        devices = range(len(p.devices))
        self.free, self.channel, self.load = [0.0] * len(devices), [0.0] * len(devices), [0.0] * len(devices)
        self.weights, self.used, self.largest = [[0] * len(devices) for _ in range(3)]
        self.home, self.at, self.end = {}, {}, [0.0] * len(p.names)
        self.copies = {}  # (op, output, device) -> when it is there
        self.sent = {}  # op -> [(device, bytes)]
        self.left = [len(set(r)) for r in p.readers]

    def arrival(self, v, d, book):
        ready = moved = 0.0
        away = 0
        for u, output, size in self.p.inputs[v]:
            src = self.at[u]
            if src == d:
                ready = max(ready, self.end[u])
                continue
            there = self.copies.get((u, output, d))
            if there is None:
                link = self.p.links[src][d]
                length = link["latency_us"] + size / link["bandwidth_bytes_per_s"] * 1e6
                there = max(self.end[u], self.channel[src], self.channel[d]) + length
                moved += length
                away += size
                if book:
                    self.channel[src] = self.channel[d] = there
                    self.copies[u, output, d] = there
                    self.used[d] += size
                    self.sent.setdefault(u, []).append((d, size))
            ready = max(ready, there)
        return ready, moved, away

    def room(self, v, d):
        p, unit = self.p, self.p.unit[v]
        need = p.held[v] + p.temporary[v]
        if unit not in self.home:  # and room for the largest op there, which may come late
            need = p.need[unit][0] + need + self.spare * max(self.largest[d], p.need[unit][1])
        return self.weights[d] + self.used[d] + need <= self.limit[d]

    def best_device(self, v):
        p, unit = self.p, self.p.unit[v]
        if unit in self.home:
            d = self.home[unit]
            return d if self.room(v, d) else None
        best = None
        for d in range(len(p.devices)):
            if not self.room(v, d):
                continue
            ready, moved, away = self.arrival(v, d, False)
            start = max(ready, self.free[d])
            score = value(self.formulas["where"], {
                "end": (start + p.time[v][d]) / p.scale, "start": start / p.scale, "moved": moved / p.scale,
                "load": self.load[d] / p.scale, "weights": self.weights[d] / self.limit[d],
                "fill": (self.weights[d] + self.used[d]) / self.limit[d], "away": away / self.total})
            if best is None or score < best[0]:
                best = (score, d)
        return None if best is None else best[1]

    def rank(self, v):
        p = self.p
        return value(self.formulas["order"], {
            "bottom": p.bottom[v] / p.scale, "top": p.top[v] / p.scale, "time": p.mean[v] / p.scale,
            "out": sum(p.send[v]) / p.scale, "readers": len(p.readers[v]) / 8.0,
            "weights": p.persistent[v] / self.total,
            "frees": sum(b for u, _, b in p.inputs[v] if self.left[u] == 1) / self.total})

    def run(self):
        p = self.p
        missing = [len(set(u for u, _, _ in i)) for i in p.inputs]
        ready = [(-self.rank(v), v) for v in range(len(p.names)) if missing[v] == 0]
        heapq.heapify(ready)
        while ready:
            _, v = heapq.heappop(ready)
            d = self.best_device(v)
            if d is None:
                return None
            if p.unit[v] not in self.home:
                self.home[p.unit[v]] = d
                self.weights[d] += p.need[p.unit[v]][0]
                self.largest[d] = max(self.largest[d], p.need[p.unit[v]][1])
            arrived, _, _ = self.arrival(v, d, True)
            self.at[v] = d
            self.end[v] = self.free[d] = max(arrived, self.free[d]) + p.time[v][d]
            self.load[d] += p.time[v][d]
            self.used[d] += p.held[v]
            for u in set(u for u, _, _ in p.inputs[v]):
                self.left[u] -= 1
                if self.left[u] == 0:
                    self.used[self.at[u]] -= p.held[u]
                    for e, size in self.sent.pop(u, []):
                        self.used[e] -= size
            for w in set(p.readers[v]):
                missing[w] -= 1
                if missing[w] == 0:
                    heapq.heappush(ready, (-self.rank(w), w))
        return max(self.end, default=0.0)


def scenario(data):
    """The cluster as YAML, for baechi itself."""
    devices, links = data["cluster"]["devices"], data["cluster"]["links"]
    lines = ["name: problem", "graph: {import: trace.json}", "cluster:", "  devices:"]
    for d, device in enumerate(devices):
        kind = ", kind: %s" % device["kind"] if device["kind"] else ""
        lines.append("    - {name: d%d_, memory: %d B, speed: %r%s}" % (d, device["memory_bytes"], device["speed"], kind))
    lines += ["  link: {bandwidth: 1 GB/s, latency: 0 us}", "  links:"]
    for i in range(len(devices)):
        for j in range(i + 1, len(devices)):
            lines.append("    - {from: d%d_, to: d%d_, bandwidth: %d B/s, latency: %d ns}" % (
                i, j, links[i][j]["bandwidth_bytes_per_s"], round(1000 * links[i][j]["latency_us"])))
    return "\n".join(lines + ["engine: {transfers: %s}" % data["engine"]["transfers"], "placers: [m_etf]", ""])


def better_of_both(data, found, baechi):
    """The better of a placement and m_etf's, as baechi simulates them; prints it."""
    with tempfile.TemporaryDirectory() as folder:
        def write(name, text):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)

        write("trace.json", json.dumps(data["trace"]))
        write("problem.yaml", scenario(data))
        placer = "search:portfolio=m_etf,evaluations=0"
        if found is not None:
            write("mine.json", json.dumps({"format": "baechi-placement", "version": 1, "placement": found}))
            placer += ",start=" + os.path.join(folder, "mine.json")
        done = subprocess.run([baechi, "place", "trace.json", "--scenario", "problem.yaml", "--placer", placer, "--format",
                               "json"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        sys.stderr.buffer.write(done.stderr)
        sys.stdout.buffer.write(done.stdout)
        sys.exit(0 if done.returncode == 0 else 1)


def place(formulas, baechi=""):
    """Reads a problem and prints a placement: the first plan that fits. With `baechi`, a path: or m_etf's, if that is
    better; plans count memory roughly, and where none fits, m_etf's does."""
    data = json.load(sys.stdin)
    p, found = Problem(data), None
    for share, spare in [(1.0, 1), (1.0, 2), (0.9, 2), (0.8, 2), (0.7, 2)]:
        schedule = Schedule(p, formulas, share, spare)
        if schedule.run() is not None:
            found = {name: schedule.at[v] for v, name in enumerate(p.names)}
            break
    if baechi:
        better_of_both(data, found, baechi)
    if found is None:
        print("no plan fits", file=sys.stderr)
        sys.exit(3)
    json.dump({"format": "baechi-placement", "version": 1, "placement": found}, sys.stdout)


def mutated(rng, parent):
    child = {name: [[w, list(names)] for w, names in terms] for name, terms in parent.items()}
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice(["order", "where"])
        features, terms = (ORDER, WHERE)[name == "where"], child[name]
        kind = rng.random()
        if kind < 0.45 or not terms:
            names = [rng.choice(features) for _ in range(rng.choice([1, 1, 2]))]
            terms.append([round(rng.choice([-1, 1]) * 2 ** rng.uniform(-5, 2), 4), names])
        elif kind < 0.85:
            rng.choice(terms)[0] *= round(2 ** rng.uniform(-1, 1), 3)
        elif len(terms) > 1:
            terms.remove(rng.choice(terms))
    return child


def text_of(formulas):
    return "; ".join(name + " = " + " + ".join("%.4g %s" % (w, " ".join(names)) for w, names in terms)
                     for name, terms in sorted(formulas.items()))


def write_placer(path, formulas, baechi):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(path, "w") as file:
        file.write("#!/usr/bin/env python3\nimport sys\nsys.dont_write_bytecode = True\n"
                   "sys.path.insert(0, %r)\nfrom evolve import place\n\nplace(%s, %r)\n" % (
                       here, json.dumps(formulas), os.path.abspath(baechi)))
    os.chmod(path, 0o755)


class Arena:
    """Scores formulas on the training instances, relative to m_etf there."""

    def __init__(self, arguments):
        self.arguments, self.known = arguments, {}
        self.rival = self.ask("m_etf", True)

    def ask(self, placer, update):
        command = [self.arguments.baechi, "arena", "--json", "--placer", placer, "-j", str(self.arguments.threads)]
        command += ["--instances", self.arguments.instances] + (["--update-best"] if update else [])
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        scores = {entry["name"]: entry["score"] for entry in answer["ranking"]}
        return scores[placer] / scores.get("m_etf", 1.0)

    def score(self, formulas):
        text = text_of(formulas)
        if text not in self.known:
            path = os.path.join(self.arguments.output, "candidate.py")
            write_placer(path, formulas, self.arguments.baechi)
            self.known[text] = self.ask("exec:" + path, False)
        return self.known[text]


def evolve(arguments):
    os.makedirs(arguments.output, exist_ok=True)
    rng, arena = random.Random(arguments.seed), Arena(arguments)
    population = [(arena.score(BASE), BASE)]
    print("start  %.4f x m_etf  %s" % (population[0][0], text_of(BASE)), flush=True)
    for generation in range(arguments.generations):
        for _ in range(arguments.children):
            parent = min(rng.sample(population, min(2, len(population))), key=lambda one: one[0])[1]
            child = mutated(rng, parent)
            population.append((arena.score(child), child))
        population = sorted(population, key=lambda one: one[0])[:arguments.population]
        print("%5d  %.4f x m_etf  %s" % (generation + 1, population[0][0], text_of(population[0][1])), flush=True)
        write_placer(os.path.join(arguments.output, "placer.py"), population[0][1], arguments.baechi)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--baechi", default="baechi")
    parser.add_argument("--instances", required=True, help="folder with instances/*.yaml to train on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--children", type=int, default=4, help="of a generation")
    parser.add_argument("--population", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", "--output", default="results/evolved")
    evolve(parser.parse_args())


if __name__ == "__main__":
    main()
