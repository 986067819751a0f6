#!/usr/bin/env python3
"""docs.py BAECHI [TRANSCRIPT...]: writes again what is generated: the schemas of scenarios and of answers, ARCHITECTURE's map,
tables that stand between '<!-- baechi ... -->' and '<!-- end -->', predicted steps, and what the transcripts' commands print; or
these TRANSCRIPTs alone."""
import csv
import glob
import io
import os
import re
import subprocess
import sys
import tempfile

import layout

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BAECHI = os.path.abspath(sys.argv[1])
if os.path.basename(BAECHI) != "baechi" or not os.access(BAECHI, os.X_OK):
    sys.exit("docs.py: {} is not an executable named baechi, as transcripts call it".format(sys.argv[1]))


def printed(arguments):
    return subprocess.run([BAECHI, *arguments], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


def replace(path, text):
    before = open(path).read() if os.path.exists(path) else None
    if before == text:
        return
    with open(path, "w") as file:
        file.write(text)
    print("wrote", os.path.relpath(path, ROOT))


def write_tables(path):
    """Replaces the text between the markers with the output of the command in the first one."""
    with open(path) as file:
        text = file.read()
    pattern = re.compile(r"(<!-- baechi ([^\n]*) -->\n).*?(<!-- end -->)", re.DOTALL)
    replace(path, pattern.sub(lambda m: m[1] + printed(m[2].split()) + m[3], text))


def write_map(path):
    """Writes the folders of tests/layout/modules.txt."""
    with open(path) as file:
        text = file.read()
    replace(path, re.sub("(<!-- modules -->\n).*?(<!-- end -->)", lambda m: m[1] + layout.module_map() + m[2], text, flags=re.DOTALL))


def write_transcript(path):
    """Replaces the output after each line '$ COMMAND'. Keeps comments, and empty lines before them."""
    lines, empty_before = [], False
    environment = dict(os.environ, PATH=os.path.dirname(BAECHI) + ":" + os.environ["PATH"], COLUMNS="100")
    with open(path) as file:
        for line in file:
            if line.startswith("# "):
                lines += ["\n" if empty_before else "", line]
            elif line.startswith("$ "):
                done = subprocess.run(["sh", "-c", line[2:]], cwd=os.path.dirname(path), env=environment, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                if "not found" in done.stdout and done.returncode == 127:
                    sys.exit("{}: {}".format(os.path.relpath(path, ROOT), done.stdout))
                lines += [line, done.stdout]
            empty_before = line == "\n"
    replace(path, "".join(lines))


def write_predictions(path):
    """What steps of models take, as validate/steps/steps.py measures them on a GPU."""
    columns = ["graph", "transforms", "cluster.devices.kind", "step_time_us", "peak_bytes"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BAECHI, "run", "validate/steps/h100.yaml", "--quiet", "--out", folder], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, "results.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    replace(path, text.getvalue())


if sys.argv[2:]:
    for transcript in sys.argv[2:]:
        write_transcript(os.path.abspath(transcript))
    sys.exit()
replace(os.path.join(ROOT, "scenarios/scenario.schema.json"), printed(["schema"]))
write_predictions(os.path.join(ROOT, "validate/steps/predicted.csv"))
subprocess.run([sys.executable, os.path.join(ROOT, "tests/layout/answers.py"), BAECHI], check=True)
write_map(os.path.join(ROOT, "ARCHITECTURE.md"))
for readme in subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, text=True,
                             stdout=subprocess.PIPE).stdout.split():
    write_tables(os.path.join(ROOT, readme))
for transcript in sorted(glob.glob(os.path.join(ROOT, "scenarios/examples/*.transcript"))):
    write_transcript(transcript)
