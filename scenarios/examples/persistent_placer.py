#!/usr/bin/env python3
"""A placer that stays: `baechi place TRACE --placer exec:./persistent_placer.py,persistent=true ...`

Each line on standard input is a baechi-problem; each is answered with one line, a baechi-placement. In a sweep one process
per thread answers all problems of its placer."""
import json
import sys


def place(problem):
    """Units in the order of the graph, each where the least work lies, among devices with room for its weights."""
    ops, devices = problem["trace"]["ops"], problem["cluster"]["devices"]
    unit = {op["name"]: (op.get("colocation") or [op["name"]])[0] for op in ops}
    weights = {}
    for op in ops:
        weights[unit[op["name"]]] = weights.get(unit[op["name"]], 0) + op["persistent_bytes"]
    load, used, home = [0.0] * len(devices), [0] * len(devices), {}
    for op in ops:
        name = unit[op["name"]]
        if name not in home:
            fits = [d for d in range(len(devices)) if used[d] + weights[name] <= devices[d]["memory_bytes"]]
            if not fits:
                return {"status": "infeasible", "detail": f"no device has room for {name}"}
            home[name] = min(fits, key=load.__getitem__)
            used[home[name]] += weights[name]
        time = op["compute_us"]
        load[home[name]] += min(t for t in time.values() if t is not None) if isinstance(time, dict) else time
    return {"placement": {op["name"]: home[unit[op["name"]]] for op in ops}}


for line in sys.stdin:
    problem = json.loads(line)
    answer = {"format": "baechi-placement", "version": 1, "id": problem["id"], **place(problem)}
    print(json.dumps(answer), flush=True)  # without flush the program waits for more
