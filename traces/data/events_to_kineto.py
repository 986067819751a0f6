#!/usr/bin/env python3
"""The raw events of a recording (MODEL.events.jsonl.zst) as a Kineto trace, for the importer `pytorch`.

usage: events_to_kineto.py EVENTS OUT.json
"""
import json, subprocess, sys

unpack = subprocess.run(["zstd", "-dcq", "--long=27", sys.argv[1]], check=True, stdout=subprocess.PIPE)
events = []
for line in unpack.stdout.splitlines():
    raw = json.loads(line)
    event = {"name": raw["name"], "pid": 1, "tid": raw["tid"], "ts": raw["ts"]}
    if "corr" in raw:
        event.update(ph="X", cat="cpu_op", dur=raw["dur"], args={"Record function id": raw["corr"]})
    else:
        event.update(ph="i", args={"Bytes": raw["bytes"], "Device Type": 0})
    events.append(event)
with open(sys.argv[2], "w") as file:
    json.dump({"traceEvents": events}, file)
