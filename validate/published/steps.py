#!/usr/bin/env python3
"""Steps of whole models on one GPU: the block h100_steps of the board and, as `baechi validate steps`, what
validate/steps/steps.py measured beside the results of a scenario."""
import argparse
import json
import sys
from dataclasses import replace

from board import Comparison, InputError, Scored, Table, columns, median, percent

# The beginnings of names of graphs, for cases of steps.py that have another name.
GRAPHS = {"bert-b32-l128": "bert-base-l128-b32", "gpt2-b8-l1024": "gpt2-small-l1024-b8", "llama-b4-l1024": "llama",
          "gnmt": "gnmt-l20-b64", "gpt2_small": "gpt2-small-l512-b8"}  # fmt: skip
KIND = "cluster.devices.kind"


def score_h100_steps(data):
    """Steps of one H100 under PyTorch."""
    comparison = Comparison()
    rows, questions = [], []
    for r in data.read("measured/h100_steps/steps.csv", comparison):
        with comparison.row(r):
            options = {key: r.whole(key, 1) for key in ("batch", "layers") if r[key]}
            rows.append(Scored(f"{r['model']}{r['layers']}, batch {r['batch']}, {r['precision']}", r["source"], r.number("step_ms", 1e-6) / 1e3,
                               lines=[r.line]))
            questions.append({"ask": "step", "generator": r["model"], "device": "h100_pytorch",
                              "options": {**options, "kernels": {"fuse_modules": False}},
                              "transforms": [{"precision": {"to": r["precision"], "except": "loss"}}]})
    for row, answer in zip(rows, (yield questions)):
        if "error" in answer:
            comparison.skip(row.lines[0], answer["error"])
        else:
            comparison.rows.append(replace(row, simulated=answer["step_time_us"] / 1e6))
    return comparison


def positive(line, key, where):
    value = line.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise InputError(f"{where}: {key} is {json.dumps(value)[:40]}; expected a number above 0")
    return float(value)


def measured_steps(path):
    """The cases in the file, a JSON object a line: those that were measured, and 'CASE PRECISION: why' of the others."""
    steps, failed = [], []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text.rstrip()) if text.strip() else {}
            except json.JSONDecodeError as error:
                raise InputError(f"{path}:{number}:{error.colno}: {error.msg}; expected a JSON object in each line") from None
            where = f"{path}:{number}:1"
            if not isinstance(line, dict):
                raise InputError(f"{where}: not a JSON object")
            if "case" not in line:
                continue  # what ran where
            name, precision = (str(line.get(key, "")) for key in ("case", "precision"))
            if "step_seconds" not in line:
                failed.append(f"{name} {precision}: {line.get('failed', 'no step_seconds')}")
                continue
            peak = None
            if line.get("peak_bytes"):
                peak = positive(line, "peak_bytes", where) - float(line.get("cublas_workspaces", 0))
            steps.append((name, precision, positive(line, "step_seconds", where), peak))
    if not steps:
        raise InputError(f"{path}: no line with case and step_seconds")
    return steps, failed


def predictions(path):
    """The rows of results by kind of device."""
    with open(path, encoding="utf-8", newline="") as file:
        table = Table(file.read(), path)
    if table.odd:
        raise InputError(table.odd[0][1])
    kinds = {}
    for row in table.rows:
        kinds.setdefault(row[KIND] if KIND in table.columns else "", []).append(row)
    if not kinds:
        raise InputError(f"{path}: no rows")
    return kinds


def runs_in(row, precision):
    transforms = row["transforms"]
    return "to:" not in transforms if precision == "fp32" else f"to: {precision}," in transforms or f"to: {precision}}}" in transforms


def compared(kinds, steps):
    """For each kind of device: what was measured, what is predicted, and why some cases have no prediction."""
    for kind, rows in kinds.items():
        found, missing = [], []
        for name, precision, seconds, peak in steps:
            graph = GRAPHS.get(name, name)
            alike = [row for row in rows if row["graph"].startswith(graph) and runs_in(row, precision)]
            if len(alike) != 1:
                missing.append(f"{name} {precision}: {len(alike)} predictions of {graph}; expected one")
                continue
            found.append({"case": f"{name} {precision}", "measured_ms": 1e3 * seconds,
                          "predicted_ms": alike[0].number("step_time_us", 1e-6) / 1e3, "measured_peak_bytes": peak,
                          "predicted_peak_bytes": alike[0].number("peak_bytes", 1)})
            found[-1]["error"] = found[-1]["predicted_ms"] / found[-1]["measured_ms"] - 1
            found[-1]["peak_error"] = found[-1]["predicted_peak_bytes"] / peak - 1 if peak else None
        yield kind, found, missing


def errors(values):
    values = [abs(v) for v in values if v is not None]
    return {"count": len(values), "median": median(values) if values else None, "worst": max(values, default=None)}


def to_text(kind, rows, missing):
    table = [["case", "measured ms", "predicted", "error", "peak MiB", "predicted", "error"]]
    for r in rows:
        peak = ["", "", ""]
        if r["measured_peak_bytes"]:
            peak = [f"{r['measured_peak_bytes'] / 2**20:.0f}", f"{r['predicted_peak_bytes'] / 2**20:.0f}", f"{100 * r['peak_error']:+.1f} %"]
        table.append([r["case"], f"{r['measured_ms']:.2f}", f"{r['predicted_ms']:.2f}", f"{100 * r['error']:+.1f} %", *peak])
    text = f"{kind}\n" + columns(table) if rows else f"{kind}\n"
    for what, key, goal in (("steps", "error", "median 10 %, worst 20 %"), ("peaks", "peak_error", "worst 3 %")):
        e = errors(r[key] for r in rows)
        if e["count"]:
            text += f"{e['count']} {what}: median {percent(e['median'])}, worst {percent(e['worst'])} (goal: {goal})\n"
    return text + "".join(f"not compared: {why}\n" for why in missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results")
    parser.add_argument("steps")
    parser.add_argument("--program")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    flags = parser.parse_args()
    try:
        steps, failed = measured_steps(flags.steps)
        kinds = list(compared(predictions(flags.results), steps))
        if not any(rows for _, rows, _ in kinds):
            raise InputError(f"{flags.results}: no prediction of a case of {flags.steps}: {'; '.join(kinds[0][2][:3])}")
    except (InputError, OSError, UnicodeDecodeError) as error:
        print(error if isinstance(error, InputError) else f"{getattr(error, 'filename', flags.steps)}: {error}", file=sys.stderr)
        return 2
    if flags.format == "json":
        print(json.dumps({"kinds": [{"kind": kind, "steps": errors(r["error"] for r in rows), "peaks": errors(
            r["peak_error"] for r in rows), "rows": rows, "not_compared": missing + failed} for kind, rows, missing in kinds]}, indent=2))
    else:
        print("\n".join(to_text(kind, rows, missing + failed) for kind, rows, missing in kinds), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
