"""results.py ROOT PROGRAM: runs an example and the queries of scenarios/results/README.md, and checks that each column of
results.csv has one type, as pandas infers it: numbers or empty cells, or text. Exit code 1 on faults."""
import csv
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

root, program = sys.argv[1], sys.argv[2]
with open(os.path.join(root, "scenarios/results/README.md")) as file:
    queries = re.findall(r"```sql\n(.*?)```", file.read(), re.S)
faults = [] if len(queries) == 10 else [f"{len(queries)} queries instead of 10"]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program, "run", os.path.join(root, "scenarios/examples/slow_link.yaml"), "--out", folder, "--quiet"],
                   check=True)
    with sqlite3.connect(os.path.join(folder, "results.sqlite")) as database:
        for query in queries:
            try:
                database.execute(query).fetchall()
            except sqlite3.Error as error:
                faults.append(f"{error}: {query}")
        types = {name: kind for _, name, kind, *_ in database.execute("PRAGMA table_info(results)")}
    with open(os.path.join(folder, "results.csv")) as file:
        rows = list(csv.DictReader(file))
    for name, kind in types.items():
        for cell in {row[name] for row in rows} - {""}:
            # A real number has a point or an exponent, because polars infers a column's type from
            # its first 100 rows.
            number = r"-?\d+" if kind == "INTEGER" else r"-?\d+(\.\d+(e[-+]\d+)?|e[-+]\d+)"
            if kind != "TEXT" and not re.fullmatch(number, cell):
                faults.append(f"{name}: {cell!r} is no {kind}")
print("\n".join(faults))
sys.exit(1 if faults else 0)
