#!/usr/bin/env python3
"""An objective as a program: `baechi place TRACE --placer search:objective=exec:./objective.py ...`

The first line on standard input is the problem, as placers get it. Each further one is a placement whose step fits in memory:
step_time_us, moved_bytes, peak_bytes of each device, and the device of each op. Each line is answered by a line: a number, of
which the search finds the least. Here: the step's time, and a microsecond for each device that is used."""
import json
import sys

json.loads(sys.stdin.readline())
print("ready", flush=True)  # without flush the program waits for more
for line in sys.stdin:
    placed = json.loads(line)
    print(placed["step_time_us"] + len(set(placed["device"])), flush=True)
