#!/usr/bin/env python3
"""Draws the CSV files that baechi writes, as SVG and as PDF for LaTeX: baechi_plot.py FOLDER_OR_FILE...

It knows the charts and steps of 'baechi report --plots', profiles.csv of 'baechi compare -o' and designs.csv of
'baechi study codesign -o'; other files are left alone. Needs matplotlib (exit code 77 without)."""
import collections
import csv
import os
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    sys.exit(77)

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#777777", "#a89f00"]
MARKS = "os^Dvph"
DASHES = ["-", "--", "-.", ":"]
FAILURES = {"oom": ("x", "#c2352b", "out of memory"), "infeasible": ("D", "#d39a1d", "infeasible"),
            "error": ("^", "#7b52ab", "error")}
PARTS = {"forward": "#3d7fc4", "backward": "#e0872b", "update": "#3a9e60", "send": "#1f9aa8", "receive": "#8a6bc9",
         "weights": "#7d8fa3", "outputs": "#5b9bd5", "copies": "#e8a95c", "workspace": "#8cc084"}
matplotlib.rcParams.update({
    "svg.hashsalt": "baechi", "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9, "legend.fontsize": 8,
    "axes.grid": True, "grid.color": "#dddddd", "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "text.parse_math": False})


def look(i):
    return {"color": COLOURS[i % 8], "marker": MARKS[i % 7], "linestyle": DASHES[i // 8 % 4], "markersize": 4}


def figure(height=8.0):
    """14 cm wide, as a page of LaTeX."""
    return pyplot.subplots(figsize=(14 / 2.54, height / 2.54), layout="constrained")


def save(drawn, stem):
    """Equal pictures are equal files: no date."""
    drawn.savefig(stem + ".svg", metadata={"Date": None})
    drawn.savefig(stem + ".pdf", metadata={"CreationDate": None})
    pyplot.close(drawn)


def chart(rows, head, stem):
    """A line for each placer along a swept key; failures are marked above."""
    _, key, position, value, _ = head
    drawn, axes = figure()
    placers = list(dict.fromkeys(r["placer"] for r in rows if r["status"] != "bound"))
    values = [float(r[value]) for r in rows if r[value] and r["status"] != "bound"]
    most = max(values, default=1.0)
    for r in rows:  # the bound of a step time; a limit far above the values would flatten them
        if r["status"] == "bound" and (r["placer"] == "lower bound" or float(r[value]) <= 4 * most):
            most = max(most, float(r[value]))
    lines = collections.defaultdict(list)
    for r in rows:
        if r[value] and r["status"] not in FAILURES:
            lines[r["placer"], r["status"]].append((float(r[position]), float(r[value])))
    for (name, status), points in lines.items():
        points.sort()
        if status == "bound":
            axes.plot(*zip(*points), color="#666666" if name == "lower bound" else "#c2352b", linestyle="--", label=name)
        else:
            style = look(placers.index(name))
            axes.plot(*zip(*points), **(style | {"linestyle": "none"} if status == "word" else style), label=name)
    failed = [p for p in placers if any(r["placer"] == p and r["status"] in FAILURES for r in rows)]
    for status, (mark, colour, label) in FAILURES.items():
        marks = [(float(r[position]), most * (1.08 + 0.05 * failed.index(r["placer"]))) for r in rows if r["status"] == status]
        if marks:
            axes.plot(*zip(*marks), color=colour, marker=mark, linestyle="none", markersize=4, label=label)
    for i, name in enumerate(failed):
        axes.annotate(name, (1.0, most * (1.08 + 0.05 * i)), xycoords=("axes fraction", "data"), va="center", fontsize=7)
    axes.set_ylim(0, most * (1.04 + 0.05 * len(failed) + (0.02 if failed else 0)))
    if position == "log position":
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    ticks = dict(sorted((float(r[position]), r[key]) for r in rows))
    axes.set_xticks(list(ticks), list(ticks.values()))
    if sum(len(t) + 2 for t in ticks.values()) > 80:
        axes.tick_params(axis="x", rotation=-30)
    axes.set_xlabel(key)
    axes.set_ylabel(value)
    axes.set_title(os.path.basename(stem), fontsize=9)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, frameon=False)
    save(drawn, stem)


def step(rows, _, stem):
    """What each device computes, sends, receives and holds over time."""
    devices = list(dict.fromkeys(r["device"] for r in rows))
    end = max(float(r["end_us"]) for r in rows if r["track"] == "limit")
    held = collections.defaultdict(dict)  # of a device, at a time: MiB by kind
    for r in rows:
        if r["track"] == "memory":
            held[r["device"]].setdefault(float(r["start_us"]), {})[r["what"]] = float(r["mib"])
    limits = {r["device"]: float(r["mib"]) for r in rows if r["track"] == "limit"}
    peak = max((sum(kinds.values()) for at in held.values() for kinds in at.values()), default=1.0) or 1.0
    scale = 4.0 / (max(peak, *limits.values()) if peak > max(limits.values()) / 2 else peak)
    drawn, axes = figure(4 + 2 * min(len(devices), 40))
    used = {}
    for number, name in enumerate(devices):
        y = 11.0 * (len(devices) - 1 - number)
        bars = collections.defaultdict(list)
        for r in rows:
            if r["device"] == name and r["track"] in ("compute", "send", "receive"):
                bars[r["track"], r["what"]].append((float(r["start_us"]), float(r["end_us"]) - float(r["start_us"])))
        for (track, what), spans in bars.items():
            low, height = {"compute": (6.4, 3.0), "send": (5.4, 0.7), "receive": (4.5, 0.7)}[track]
            used[what] = axes.broken_barh(spans, (y + low, height), color=PARTS[what], linewidth=0.2)
        times = sorted(held[name])
        base = [y] * (len(times) + 1)
        for what in ("weights", "outputs", "copies", "workspace"):
            tops = [b + scale * held[name][t].get(what, 0.0) for b, t in zip(base, times)]
            tops.append(tops[-1] if tops else y)
            used[what] = axes.fill_between([*times, end], base, tops, step="post", color=PARTS[what], linewidth=0)
            base = tops
        if scale * limits[name] <= 4.3:
            axes.hlines(y + scale * limits[name], 0, end, color="#c2352b", linestyle="--", linewidth=0.8)
    axes.set_yticks([11.0 * (len(devices) - 1 - i) + 7.9 for i in range(len(devices))], devices)
    axes.set_xlim(0, end)
    axes.set_xlabel("time [us]")
    out = "".join(f": out of memory on {r['device']}" for r in rows if r["track"] == "oom")
    axes.set_title(os.path.basename(stem) + out, fontsize=9)
    shown = [w for w in PARTS if w in used]
    axes.legend([used[w] for w in shown], shown, loc="upper center", bbox_to_anchor=(0.5, -1.4 / (4 + 2 * len(devices))),
                ncols=5, frameon=False)
    save(drawn, stem)


def profiles(rows, _, stem):
    """The fraction of points on which a placer is within a factor of the best: profile.MEASURE.svg."""
    placers = list(dict.fromkeys(r["placer"] for r in rows))
    for measure in dict.fromkeys(r["measure"] for r in rows):
        drawn, axes = figure()
        end = max(1.1, 1.05 * max(float(r["ratio"]) for r in rows if r["measure"] == measure))
        for number, placer in enumerate(placers):
            points = [(float(r["ratio"]), float(r["share"])) for r in rows if (r["measure"], r["placer"]) == (measure, placer)]
            if points:
                x, y = zip((1.0, 0.0), *points, (end, points[-1][1]))
                axes.step(x, y, where="post", label=placer, **look(number))
        axes.set_xscale("log")
        axes.set(xlim=(1, end), ylim=(0, 1.02), ylabel="share of points",
                 xlabel=f"{measure.replace('_', ' ')} over the least of all placers, at most")
        axes.legend(frameon=False)
        save(drawn, os.path.join(os.path.dirname(stem), f"profile.{measure}"))


def designs(rows, _, stem):
    """Throughput of accelerators over their area."""
    drawn, axes = figure()
    points = sorted((float(r["area_um2"]) / 1e6, float(r["samples_per_s"]), r["on_front"] == "true") for r in rows
                    if r["samples_per_s"])
    axes.plot([p[0] for p in points], [p[1] for p in points], "o", color="#bbbbbb", markersize=2, label="visited")
    axes.plot([p[0] for p in points if p[2]], [p[1] for p in points if p[2]], label="Pareto front", **look(0))
    axes.set(xlabel="area [mm2]", ylabel="samples/s")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    save(drawn, stem)


def draw(path):
    """Draws one CSV file beside it; returns whether it is one of ours."""
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        head, rows = reader.fieldnames or [], list(reader)
    if len(head) == 5 and head[0] == "placer" and head[2].endswith("position") and head[4] == "status":
        drawer = chart
    else:
        drawer = {("device", "track"): step, ("measure", "placer"): profiles,
                  ("tensor_cores", "vector_cores"): designs}.get(tuple(head[:2]))
    if drawer and rows:
        drawer(rows, head, os.path.splitext(path)[0])
    return bool(drawer)


def main(paths):
    for path in paths:
        files = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
        for file in files:
            if file.endswith(".csv"):
                draw(file)


if __name__ == "__main__":
    main(sys.argv[1:])
