#!/usr/bin/env python3
"""same.py FOLDER OTHER: checks that two runs of a scenario have the same results, except placing times."""
import csv
import sys

one, other = ([{k: v for k, v in row.items() if k != "placing_ms"}
               for row in csv.DictReader(open(f"{folder}/results.csv"))] for folder in sys.argv[1:3])
assert one and one == other, f"{sys.argv[1]} and {sys.argv[2]} differ"
print(f"{sys.argv[1]}: {len(one)} runs, equal to {sys.argv[2]}")
