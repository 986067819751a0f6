#!/usr/bin/env python3
"""Who gives up where memory is tight: m_etf, m_sct, m_topo with fallback, and auto, on published graphs, 4 devices.

tight_memory.py BAECHI [PART | --hidden]: BAECHI is the program. With PART, only graphs whose path holds it.

Each device has a fraction of what `single` needs at its peak. Prints a line for each point where one of them finds no
placement, with what `search` (20,000 evaluations) says; then the counts.

With --hidden, m_etf with fallback on ten training graphs whose backward ops the transform forward_only hides from it: how many of
120 placements run, run out of memory, or are not found.
"""
import collections
import glob
import json
import os
import subprocess
import sys
import tempfile

FRACTIONS = [0.27, 0.28, 0.29, 0.3, 0.32, 0.35, 0.4, 0.5, 0.6]
PLACERS = ["m_etf:fallback=true", "m_sct:fallback=true", "m_topo:fallback=true", "auto"]
HERE = os.path.dirname(os.path.abspath(__file__))


HIDDEN_FRACTIONS = [0.27, 0.28, 0.3, 0.32, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8]
GENERATED = ["bert", "gnmt", "inception_v3", "inception_v3 level=tf1", "resnet50", "transformer", "vgg16"]
SLOW_LINK = ("--bandwidth", "5.7 GB/s", "--latency", "134 us")


def place(graph, placer, memory, more=SLOW_LINK):
    command = [sys.argv[1], "place", graph, "--placer", placer, "--devices", "4", "--memory", f"{memory} B",
               *more, "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


def peak_of(graph, more=SLOW_LINK):
    return sum(kind or 0 for kind in place(graph, "single", 1 << 46, more)["peak_kinds"].values())


def hidden():
    answers = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        graphs = []
        for number, generator in enumerate(GENERATED):
            graphs.append(f"{folder}/{number}.json")
            subprocess.run([sys.argv[1], "trace", "generate", *generator.split(), "-o", graphs[-1]], check=True)
        for graph in graphs + sorted(glob.glob(f"{HERE}/../traces/data/*_train*.zst")):
            more = ["--link", "pcie3_host_pytorch", *(["--kind", "rtx_2080"] if graph.endswith(".json") else [])]
            peak = peak_of(graph, more)
            for fraction in HIDDEN_FRACTIONS:
                answer = place(graph, "m_etf:fallback=true", int(peak * fraction), [*more, "--transform", "forward_only:force=true"])
                answers[answer["status"]] += 1
    print(", ".join(f"{status} {count}" for status, count in sorted(answers.items())))


def main():
    if sys.argv[2:] == ["--hidden"]:
        hidden()
        return
    data = f"{HERE}/../validate/published/data"
    patterns = [f"{data}/msr-dnn-partitioning/*-inputs/*/*.zst", f"{data}/pipedream/*.zst",
                f"{HERE}/../traces/data/*_train*.zst"]
    graphs = [g for p in patterns for g in sorted(glob.glob(p)) if len(sys.argv) < 3 or sys.argv[2] in g]
    failed, points, solvable = collections.Counter(), 0, 0
    for graph in graphs:
        peak = peak_of(graph)
        for fraction in FRACTIONS:
            memory = int(peak * fraction)
            points += 1
            gave_up = [p for p in PLACERS if place(graph, p, memory)["status"] != "ok"]
            solved = not gave_up or place(graph, "search", memory)["status"] == "ok"
            solvable += solved
            failed.update(p for p in gave_up if solved)
            if gave_up:
                print("/".join(graph.split("/")[-3:]), fraction, *gave_up, "search", "ok" if solved else "gives up, too",
                      flush=True)
    print(f"{points} points, {solvable} solved by any; of these not by", ", ".join(f"{p} {failed[p]}" for p in PLACERS))


if __name__ == "__main__":
    main()
