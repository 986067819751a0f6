#!/usr/bin/env python3
"""The board: measurements that others published, and what the program says of each.

`baechi validate published` runs this file. A block is a row of blocks.csv and the generator function
score_NAME of its module: it reads its files, yields lists of questions to `baechi query`, is sent the answers, and returns a Comparison.
Python's standard library is all that it needs.
"""
import argparse
import collections
import contextlib
import csv
import hashlib
import html
import importlib
import io
import json
import math
import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field, replace
from statistics import median

HERE = os.path.dirname(os.path.abspath(__file__))


class InputError(Exception):
    """A file, a row or a question that is wrong: what was found, and what would be accepted."""


# Files


def number_of(text, kind=float):
    """The number that the whole text is; None if it is none."""
    try:
        value = kind(text) if text == text.strip() and "_" not in text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Row:
    """A row of a table: a text for each column, and its place. An empty field says nothing."""

    def __init__(self, table, fields, line):
        self.table, self.fields, self.number_of_line = table, fields, line
        self.line = f"{table.path}:{line}:1"

    def __getitem__(self, column):
        return self.fields[self.table.column(column)].strip()

    def where(self, column):
        at = self.table.column(column)
        return f"{self.table.path}:{self.number_of_line}:{1 + sum(len(f) + 1 for f in self.fields[:at])}"

    def _number(self, column, kind, least, unsaid, what):
        text = self[column]
        if text == "" and unsaid is not None:
            return unsaid
        value = number_of(text, kind)
        if value is None or value < least:
            raise InputError(f"{self.where(column)}: {column} '{text[:40]}' is not a {what} of at least {least:g}")
        return value

    def whole(self, column, least=0, unsaid=None):
        return self._number(column, int, least, unsaid, "whole number")

    def number(self, column, least=0.0, unsaid=None):
        return self._number(column, float, least, unsaid, "number")


class Table:
    """Comma-separated values with column names in the first line. Lines with more or fewer values are `odd`."""

    def __init__(self, text, path):
        self.path, self.rows, self.odd, self.columns = path, [], [], None
        reader, line = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=None), skipinitialspace=True), 1
        for fields in reader:
            if not fields:
                pass
            elif self.columns is None:
                self.columns, self.width = {}, len(fields)
                for i, name in enumerate(fields):
                    self.columns.setdefault(name.strip(), i)
            elif len(fields) != self.width:
                self.odd.append((f"{path}:{line}:1", f"{path}:{line}:1: {len(fields)} values, "
                                                     f"not {self.width} as in the header"))
            else:
                self.rows.append(Row(self, fields, line))
            line = reader.line_num + 1
        if self.columns is None:
            raise InputError(f"{path}:1:1: no line that names the columns")

    def column(self, name):
        if name not in self.columns:
            raise InputError(f"{self.path}:1:1: no column '{name}' (columns: {', '.join(self.columns)})")
        return self.columns[name]


def facts(name):
    """The rows of a CSV file beside this one, as dictionaries."""
    with open(os.path.join(HERE, name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# What blocks return


@dataclass
class Scored:
    """A measurement and the simulated value of the same thing, in one unit."""
    what: str = ""        # which row it is, for people
    group: str = ""       # rows of a group are also scored together
    measured: float = 0.0
    simulated: float = 0.0
    work: float = 0.0     # what the baseline multiplies; 0: none. Rows that are `alike` have one rate
    alike: str = ""
    race: str = ""        # what is trained, on which machine: rows that share it differ in their plans
    size: float = 0.0     # bytes or ops, where rows differ in it alone
    refused: bool = False # a training that ran, and is said not to fit
    lines: list = field(default_factory=list)  # of files that it was read from
    family: str = ""      # what is left out of choices at once: a model, a machine, a library; "": the group
    inferred: tuple = ()  # settings that no public source states
    without: dict = field(default_factory=dict)  # simulated without each of these

    def error(self):
        return self.simulated / self.measured - 1.0


class Comparison:
    def __init__(self):
        self.rows, self.skipped, self.files = [], [], {}
        self.left_out = None  # rows predicted by choices that their family had no part in

    def skip(self, line, why):
        """`why` may begin with the place of a field of the line."""
        self.skipped.append((line, why if why.startswith(line[:line.rfind(":") + 1]) else f"{line}: {why}"))

    def add(self, other):
        self.rows += other.rows
        self.skipped += other.skipped
        self.files.update(other.files)

    @contextlib.contextmanager
    def row(self, row):
        """`with comparison.row(row):` skips a row for which InputError is raised."""
        try:
            yield row
        except InputError as error:
            self.skip(row.line, str(error))


class Data:
    """The folder of measurements: laid out with measured/, vtrain/, dlexamples/, papers/, or as measured/ itself."""

    def __init__(self, folder, program):
        self.folder, self.program = folder, program

    def path(self, file):
        for name in (file, file.removeprefix("measured/")):
            if os.path.exists(os.path.join(self.folder, name)):
                return os.path.join(self.folder, name)
        return None

    def text(self, path):
        """Of a file, packed by zstd or not."""
        if path.endswith(".zst"):
            return self.program.ask([{"ask": "text", "file": path}])[0]["text"]
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read()

    def read(self, file, comparison):
        """The rows of the table in `file` or `file`.zst; none if the folder has neither."""
        path = self.path(file + ".zst") or self.path(file)
        if path is None:
            return []
        comparison.files[path] = 0
        try:
            table = Table(self.text(path), path)
        except (InputError, csv.Error) as error:
            comparison.skip(f"{path}:1:1", str(error))
            return []
        comparison.files[path] = len(table.rows) + len(table.odd)
        comparison.skipped += table.odd
        return table.rows

    def checksum(self, file):
        path = self.path(file + ".zst") or self.path(file)
        return hashlib.sha256(self.text(path).encode()).hexdigest()[:16] if path else None


# The program


class Program:
    """`baechi query` as a process that lives as long as this one. An answer is known until the end."""

    def __init__(self, path, quiet=False):
        self.process = subprocess.Popen([path, "query", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.known, self.quiet = {}, quiet

    def ask(self, questions):
        lines = [json.dumps(q, separators=(",", ":")) for q in questions]
        fresh = [line for line in dict.fromkeys(lines) if line not in self.known]
        if fresh:
            self.process.stdin.write(("\n".join(fresh) + "\n\n").encode())
            self.process.stdin.flush()
        begun = shown = time.monotonic()
        terminal = sys.stderr.isatty()
        for done, line in enumerate(fresh):
            answer = self.process.stdout.readline()
            if not answer:
                raise InputError(f"baechi query ended with code {self.process.wait()}")
            self.known[line] = json.loads(answer)
            now = time.monotonic()
            if now - shown > (1.0 if terminal else 10.0) and not self.quiet:
                shown, left = now, (now - begun) * (len(fresh) - done) / (done + 1)
                print("\r" * terminal + f"scoring: {done + 1} of {len(fresh)} questions, about {left:.0f} s left ",
                      end="" if terminal else "\n", file=sys.stderr, flush=True)
        if shown > begun:
            print("\r\x1b[K" * terminal + f"scored {len(fresh)} questions in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        return [self.known[line] for line in lines]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run_blocks(program, running):
    """The results of generators that yield lists of questions, which are asked together: {name: result}."""
    results, waiting = {}, {}

    def advance(name, answers):
        try:
            waiting[name] = running[name].send(answers)
        except StopIteration as end:
            results[name] = end.value
            waiting.pop(name, None)

    for name in running:
        advance(name, None)
    while waiting:
        asked = dict(waiting)
        answers = iter(program.ask([q for questions in asked.values() for q in questions]))
        for name, questions in asked.items():
            advance(name, [next(answers) for _ in questions])
    return results


# Scores


def mean(samples):
    total = 0.0
    for sample in samples:  # in their order: sum() of later versions of Python rounds in another way
        total += sample
    return total / len(samples)


def errors_of(rows):
    """Absolute errors, relative to what was measured. `log_mean`: each doubling of the size counts alike."""
    if not rows:
        return {"rows": 0, "mean": 0.0, "median": 0.0, "bias": 0.0}
    errors = [row.error() for row in rows]
    absolute = [abs(e) for e in errors]
    scores = {"rows": len(rows), "mean": mean(absolute), "median": median(absolute), "bias": median(errors)}
    parts = {}
    for row, error in zip(rows, absolute):
        if row.size > 0.0:
            parts.setdefault((row.group, math.frexp(row.size)[1]), []).append(error)
    if parts:
        scores["log_mean"] = mean([mean(parts[key]) for key in sorted(parts)])
    return scores


def baseline_of(rows):
    """Work times the median rate of the rows alike, which are those that it predicts."""
    rates = {}
    for row in rows:
        if row.work > 0.0:
            rates.setdefault(row.alike, []).append(row.measured / row.work)
    rates = {alike: median(all_of_them) for alike, all_of_them in rates.items()}
    return [Scored(row.what, row.group, row.measured, row.work * rates[row.alike], size=row.size)
            for row in rows if row.work > 0.0]


def left_out_of(rows, family):
    """The errors where each family's rows are predicted by choices that they had no part in: an inferred setting stays
    where rows of other families are nearer with it than without. `free`: how many there are."""
    def other_rows(setting, of):
        return [row for row in rows if setting in row.without and (row.family or row.group) != of]

    def stays(setting, of):
        others = other_rows(setting, of)
        without = [replace(row, simulated=row.without[setting]) for row in others]
        return bool(others) and errors_of(others)["mean"] < errors_of(without)["mean"]

    settings = dict.fromkeys(setting for row in rows for setting in row.without)
    dropped = {(setting, of) for setting in settings for of in {row.family or row.group for row in rows}
               if not stays(setting, of)}
    predicted = [replace(row, simulated=next((row.without[setting] for setting in row.without
                                              if (setting, row.family or row.group) in dropped), row.simulated))
                 for row in rows]
    errors = errors_of(predicted)
    return {"group": family, "mean": errors["mean"], "median": errors["median"], "rows": errors["rows"],
            "free": len(settings)} if rows else None


class Score:
    def __init__(self, block, comparison, data):
        self.block, self.name, self.files = block, block["name"], comparison.files
        self.skipped, self.rows = list(comparison.skipped), []
        for row in comparison.rows:
            if row.measured > 0.0 and math.isfinite(row.simulated):
                self.rows.append(row)
            else:
                place = row.lines[0] if row.lines else ""
                self.skipped.append((place, f"{place + ': ' if place else ''}{row.what}: measured {row.measured:g}, "
                                            f"simulated {row.simulated:g}"))
        self.errors, self.baseline = errors_of(self.rows), errors_of(baseline_of(self.rows))
        self.worst = max(self.rows, key=lambda row: abs(row.error()), default=None)
        names = dict.fromkeys(row.group for row in self.rows if row.group)
        self.groups = [(name, errors_of([row for row in self.rows if row.group == name])) for name in names]
        self.refused = [row.what for row in self.rows if row.refused]
        self.inferred = sorted({setting for row in self.rows for setting in row.inferred})
        self.left_out = comparison.left_out or left_out_of(
            [row for row in self.rows if not {"all", row.group, row.family} & set(filter(None, self.block["fitted_rows"].split(";")))],
            self.block["family"])
        if self.left_out and self.block["free"]:
            self.left_out["free"] = int(self.block["free"])
        self.fitted = self._fitted(data)

    def _fitted(self, data):
        files = dict(part.split("=") for part in self.block["files"].split())
        others = [file for file, checksum in files.items() if data.checksum(file) != checksum]
        if not files:
            return self.block["fitted"]
        return self.block["fitted"] + (f"; not to {', '.join(others)} of this folder" if others else ": these files")

    def json(self):
        block = {"name": self.name, **self.errors, "skipped": len(self.skipped), "left_out": self.left_out,
                 "inferred": self.inferred, "worst": None, "baseline": None}
        if self.worst:
            block["worst"] = {"row": self.worst.what, "measured": self.worst.measured,
                              "simulated": self.worst.simulated, "error": self.worst.error()}
        if self.baseline["rows"]:
            block.update(baseline=self.baseline["mean"], baseline_is=self.block["baseline"])
        return {**block, "groups": [{"name": name, **errors} for name, errors in self.groups],
                "fitted": self.fitted, "published": self.block["published"], "refused": self.refused,
                "skipped_rows": [why for _, why in self.skipped]}


def unasked(scores):
    """Rows of files that no block scored or skipped, by file."""
    files, asked = {}, set()
    for score in scores:
        files.update(score.files)
        asked.update(line for row in score.rows for line in row.lines)
        asked.update(line for line, _ in score.skipped)
    counts = collections.Counter(line.rsplit(":", 2)[0] for line in asked)
    return [(path, rows - counts[path]) for path, rows in sorted(files.items()) if counts[path] < rows]


# What is printed


def percent(share, known=True):
    return f"{100 * share:.1f} %" if known else "-"


HEADER = ["block", "rows", "skipped", "left out", "mean", "median", "by size", "baseline", "worst", "worst row"]


def cells_of(score):
    e, some = score.errors, bool(score.rows)
    return [score.name, str(e["rows"]), str(len(score.skipped)),
            percent((score.left_out or {}).get("mean", 0.0), score.left_out is not None),
            percent(e["mean"], some), percent(e["median"], some), percent(e.get("log_mean", 0.0), "log_mean" in e),
            percent(score.baseline["mean"], score.baseline["rows"] > 0),
            f"{100 * score.worst.error():+.1f} %" if some else "-", score.worst.what if some else ""]


WIDTH = 100  # of a terminal


def columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = ""
    for row in rows:
        cells = [cell.ljust(w) if i in (0, len(row) - 1) else cell.rjust(w) for i, (cell, w) in
                 enumerate(zip(row, widths))]
        line = "  ".join(cells).rstrip()
        text += (line if len(line) <= WIDTH else line[:WIDTH - 3] + "...") + "\n"
    return text


def notes_of(score):
    """What a block is, what was chosen for it, and what it could not use: lines of text."""
    notes = [f"{score.name}: {score.block['summary']}"]
    if score.left_out:
        notes.append(f"each {score.left_out['group']} left out of every choice: mean {percent(score.left_out['mean'])}, "
                     f"median {percent(score.left_out['median'])} of {score.left_out['rows']} rows; "
                     f"free: {score.left_out.get('free', 0)}")
    elif score.rows:
        notes.append("left out: none: all of its rows decided numbers that they are scored with")
    notes.append(f"at hand: mean {percent(score.errors['mean'])}, median {percent(score.errors['median'])}; "
                 f"inferred settings: {len(score.inferred)}"
                 f"{' (' + '; '.join(score.inferred) + ')' if score.inferred else ''}" if score.rows else "no row is compared")
    notes.append(f"fitted to: {score.fitted}")
    if score.baseline["rows"]:
        notes.append(f"baseline: {score.block['baseline']}: mean {percent(score.baseline['mean'])}, "
                     f"median {percent(score.baseline['median'])}")
    if score.worst:
        notes.append(f"worst: {score.worst.what}: {100 * score.worst.error():+.1f} %")
    if score.block["published"]:
        notes.append(f"published: {score.block['published']}")
    if score.refused:
        notes.append(f"ran, and are said not to fit: {len(score.refused)}, the first: {score.refused[0]}")
    reasons = {}
    for _, why in score.skipped:
        place, _, reason = why.partition(": ")
        reasons.setdefault(reason or why, []).append(place)
    for reason, places in list(reasons.items())[:10]:
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        notes.append(f"skipped: {reason}: {', '.join(places[:3])}{more}")
    if len(reasons) > 10:
        notes.append(f"and {len(reasons) - 10} more reasons: --format json")
    return notes


def to_text(scores, left):
    table = [HEADER]
    for score in scores:
        table.append(cells_of(score))
        for name, e in score.groups:
            table.append(["  " + name, str(e["rows"]), "", "", percent(e["mean"]), percent(e["median"]),
                          percent(e.get("log_mean", 0.0), "log_mean" in e), "", "", ""])
    text = columns(table)
    for score in scores:
        text += "\n"
        for i, note in enumerate(notes_of(score)):
            text += textwrap.fill(note, WIDTH, initial_indent="  " * (i > 0), subsequent_indent="    ", break_on_hyphens=False) + "\n"
    return text + "".join(f"\nin no block: {rows} rows of {path}" for path, rows in left) + ("\n" if left else "")


def to_markdown(scores):
    rows = [HEADER + ["measured", "fitted to"]] + [["---"] * (len(HEADER) + 2)]
    rows += [[f"`{cells[0]}`", *cells[1:], score.block["summary"], score.fitted]
             for score in scores for cells in [cells_of(score)]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def chart(title, points, label, equal):
    """A scatter of (x, y, group, text) as SVG: x logarithmic, y logarithmic where `equal`, else in per cent."""
    width, height, pad = 460, 320, 46
    colours = "#3d7fc4 #e0872b #3a9e60 #c9485b #8a6bc9 #9a6a4f #d271b5 #7d848c #a5a332 #31a8b5".split()
    xs = [math.log10(p[0]) for p in points]
    ys = [math.log10(p[1]) for p in points] if equal else [p[1] for p in points]
    low, high = (min(xs + ys), max(xs + ys)) if equal else (min(xs), max(xs))
    bottom, top = (low, high) if equal else (min(ys + [0.0]), max(ys + [0.0]))
    groups = list(dict.fromkeys(p[2] for p in points))

    def place(value, first, last, size):
        return pad + (value - first) / ((last - first) or 1.0) * (size - 2 * pad)

    def at(x, y):
        return place(x, low, high, width), height - place(y, bottom, top, height)

    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[groups.index(p[2]) % len(colours)]}">'
        f"<title>{html.escape(p[3])}</title></circle>"
        for p, (x, y) in zip(points, map(at, xs, ys)))
    (x1, y1), (x2, y2) = (at(low, low), at(high, high)) if equal else (at(low, 0.0), at(high, 0.0))
    ends = [(low, bottom, f"{10 ** low:.3g}", 0, 16), (high, bottom, f"{10 ** high:.3g}", 0, 16),
            (low, bottom, f"{10 ** bottom:.3g}" if equal else f"{bottom:.0f} %", -22, 0),
            (low, top, f"{10 ** top:.3g}" if equal else f"{top:.0f} %", -22, 0)]
    texts = "".join(f'<text x="{at(x, y)[0] + dx:.0f}" y="{at(x, y)[1] + dy:.0f}" text-anchor="middle">{text}</text>'
                    for x, y, text, dx, dy in ends)
    return (f'<svg viewBox="0 0 {width} {height}"><text x="{width / 2}" y="16" text-anchor="middle">'
            f'{html.escape(title)}</text><text x="{width / 2}" y="{height - 8}" text-anchor="middle">{label}</text>'
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888" stroke-dasharray="5 4"/>'
            f"{marks}{texts}</svg>")


def to_html(scores, left, most=2000):
    """A page without links: the table, and two charts per block. Of more than `most` rows every so-manieth is drawn."""
    table = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells_of(score)) + "</tr>\n"
                    for score in scores)
    notes = "".join(f"<li>{'<br>'.join(map(html.escape, notes_of(score)))}</li>\n" for score in scores)
    notes += "".join(f"<li>in no block: {rows} rows of {html.escape(path)}</li>\n" for path, rows in left)
    charts = ""
    for score in scores:
        rows = [row for row in score.rows[::-(-len(score.rows) // most) or 1] if row.simulated > 0.0]
        if not rows:
            continue
        texts = [f"{r.what}: measured {r.measured:.4g}, simulated {r.simulated:.4g} ({percent(r.error())})" for r in rows]
        charts += chart(score.name, [(r.measured, r.simulated, r.group, t) for r, t in zip(rows, texts)],
                        "measured; above it: simulated", True)
        charts += chart(f"{score.name}: errors", [(r.size or r.measured, 100 * r.error(), r.group, t)
                                                  for r, t in zip(rows, texts)],
                        "size" if any(r.size for r in rows) else "measured", False)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Simulated against published measurements</title><style>
body {{ font: 14px sans-serif; margin: 2em; }} td, th {{ padding: 2px 8px; text-align: right; }}
td:first-child, td:last-child {{ text-align: left; }} svg {{ width: 460px; font-size: 11px; }} li {{ margin: 6px; }}
</style></head><body><h1>Simulated against published measurements</h1>
<p>Errors are relative to what was measured. "left out": of rows whose family had no part in any choice. "by size": each
doubling of the size counts alike. The baseline is one rate for rows alike, and knows the rows that it predicts.</p>
<table><tr>{''.join(f'<th>{name}</th>' for name in HEADER)}</tr>
{table}</table><ul>
{notes}</ul>
{charts}
</body></html>
"""


def write_rows(path, scores):
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["block", "group", "row", "measured", "simulated", "error", "refused"])
        for score in scores:
            for row in score.rows:
                out.writerow([score.name, row.group, row.what, repr(row.measured), repr(row.simulated),
                              f"{row.error():.4f}", int(row.refused)])


def score_blocks(data, names):
    """The scores of the blocks called `names` (all if there are none) whose files the folder has."""
    known = {block["name"]: block for block in facts("blocks.csv")}
    for name in names:
        if name not in known:
            raise InputError(f"no block '{name}' (blocks: {', '.join(known)})")
    chosen = list(dict.fromkeys(names)) or list(known)
    running = {name: getattr(importlib.import_module(known[name]["module"]), "score_" + name)(data) for name in chosen}
    results = run_blocks(data.program, running)
    scores = [Score(known[name], results[name], data) for name in chosen if results[name].files]
    if not scores:
        raise InputError(f"{data.folder}: no file of {', '.join(names) or 'any benchmark'}; names and columns are those of "
                         f"{os.path.join(HERE, 'data')}, below vtrain/, dlexamples/, papers/, measured/")
    return scores, [] if names else unasked(scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("blocks", nargs="*")
    parser.add_argument("--program", default="baechi")
    parser.add_argument("--data", default=os.path.join(HERE, "data"))
    parser.add_argument("--format", choices=["text", "json", "markdown"], default="text")
    parser.add_argument("--html")
    parser.add_argument("--rows", help="a CSV file with every row")
    flags = parser.parse_args()
    sys.path.insert(0, HERE)
    try:
        if not os.path.isdir(flags.data):
            raise InputError(f"{flags.data}: no such folder; --data FOLDER says where the measurements are")
        program = Program(flags.program)
        scores, left = score_blocks(Data(flags.data, program), flags.blocks)
        program.close()
        if flags.html:
            with open(flags.html, "w", encoding="utf-8") as file:
                file.write(to_html(scores, left))
        if flags.rows:
            write_rows(flags.rows, scores)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    if flags.format == "json":
        print(json.dumps({"blocks": [score.json() for score in scores],
                          "in_no_block": [{"file": path, "rows": rows} for path, rows in left]}, indent=2))
    else:
        print(to_markdown(scores) if flags.format == "markdown" else to_text(scores, left), end="")
    return 0


if __name__ == "__main__":
    # Blocks import this file as `board`.
    sys.modules["board"] = sys.modules["__main__"]
    sys.exit(main())
