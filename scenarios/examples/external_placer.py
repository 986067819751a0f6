#!/usr/bin/env python3
"""A placer as a program of its own: `baechi place TRACE --placer exec:./external_placer.py ...`

Reads a baechi-problem on standard input, writes a baechi-placement on standard output. Each op, in
topological order, goes where it ends earliest if no transfer waits for another, among the devices
with room for the weights of all their ops and the outputs and workspace of the largest."""
import json
import sys

problem = json.load(sys.stdin)
trace, cluster = problem["trace"], problem["cluster"]
devices, links = cluster["devices"], cluster["links"]
outputs = {op["name"]: op.get("outputs", []) for op in trace["ops"]}
inputs = {op["name"]: [] for op in trace["ops"]}  # name -> [(producer, tensor)]
for edge in trace["edges"]:
    inputs[edge["to"]].append((edge["from"], outputs[edge["from"]][edge["output"]]))
for edge in trace["controls"]:
    inputs[edge["to"]].append((edge["from"], {"bytes": 4}))

groups = {}  # colocation label -> its ops
for op in trace["ops"]:
    for label in op.get("colocation", []):
        groups.setdefault(label, []).append(op)

placement, end = {}, {}
free = [0.0] * len(devices)  # when each device has run what was placed on it
weights, largest = [0] * len(devices), [0] * len(devices)


def working(op):
    return op.get("temporary_bytes", 0) + sum(out["bytes"] for out in outputs[op["name"]])


def end_on(op, d):
    time = op["compute_us"]
    if isinstance(time, dict):  # by device kind, the first one being the usual
        time = time.get(devices[d]["kind"], next(iter(time.values())))
    ready = 0.0
    for producer, tensor in inputs[op["name"]]:
        link = links[placement[producer]][d]
        moved = link["latency_us"] + tensor["bytes"] / link["bandwidth_bytes_per_s"] * 1e6
        moved = tensor.get("transfer_us", moved)  # measured, if the trace knows better
        ready = max(ready, end[producer] + (0.0 if placement[producer] == d else moved))
    return max(ready, free[d]) + time / devices[d]["speed"]


for op in trace["ops"]:
    name = op["name"]
    group = groups[op["colocation"][0]] if op.get("colocation") else [op]
    if name not in placement:
        new_weights = sum(member.get("persistent_bytes", 0) for member in group)
        new_largest = max(working(member) for member in group)
        room = [d for d in range(len(devices))
                if weights[d] + new_weights + max(largest[d], new_largest)
                <= devices[d]["memory_bytes"]]
        if not room:
            print(f"no device has room for {name}", file=sys.stderr)
            sys.exit(3)  # infeasible
        best = min(room, key=lambda d: end_on(op, d))
        weights[best] += new_weights
        largest[best] = max(largest[best], new_largest)
        for member in group:
            placement[member["name"]] = best
    end[name] = free[placement[name]] = end_on(op, placement[name])

json.dump({"format": "baechi-placement", "version": 1, "placement": placement,
           "order": [op["name"] for op in trace["ops"]]}, sys.stdout)
