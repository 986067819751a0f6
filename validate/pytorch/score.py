#!/usr/bin/env python3
"""Steps of PyTorch in several processes beside their predictions: what `./dev torch OUT` left in OUT/score.csv, whose columns
without_EFFECT_us are what is predicted without that effect, and OUT/peaks.csv. `baechi validate torch OUT` runs this file.

A case counts if its rounds lie close together (evaluate.py). Steps need not be timed where there are peaks."""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "published"))

from board import InputError, Table, columns, mean, median, percent  # noqa: E402

MOST_ERROR_OF_PEAK = 0.03


def read_table(path):
    with open(path, encoding="utf-8", newline="") as file:
        table = Table(file.read(), path)
    if table.odd:
        raise InputError("\n".join(why for _, why in table.odd))
    return table


def read_cases(table):
    effects = [c[len("without_"):-len("_us")] for c in table.columns if c.startswith("without_") and c.endswith("_us")]
    cases = []
    for row in table.rows:
        if row["counts"] not in ("yes", "no"):
            raise InputError(f"{row.where('counts')}: counts is '{row['counts']}', not yes or no")

        def optional(column, least, row=row):
            return row.number(column, least) if column in table.columns else 0.0

        case = {"model": row["model"], "way": row["way"], "cut": row["cut"], "predicted_us": row.number("predicted_us", 1e-3),
                "measured_us": row.number("measured_us", 1e-3), "noise": row.number("noise"), "drift": optional("drift", -1.0),
                "counts": row["counts"] == "yes", "recorded_noise": optional("recorded_noise", 0.0),
                "no_transfers": row.number("no_transfers_us"), "baechi": row.number("baechi_us"),
                "without": [row.number(f"without_{effect}_us") for effect in effects]}
        case["error"] = case["predicted_us"] / case["measured_us"] - 1
        cases.append(case)
    return cases, effects


def read_peaks(path):
    return [{**{key: row[key] for key in ("model", "way", "cut")}, "rank": row.whole("rank"),
             "error": row.number("predicted_bytes") / row.number("measured_bytes", 1) - 1}
            for row in (read_table(path).rows if os.path.exists(path) else [])]  # fmt: skip


def errors_of(errors):
    errors = [abs(e) for e in errors] or [0.0]
    return {"median": median(errors), "worst": max(errors)}


def spearman(a, b):
    """The rank correlation, ties at their mean rank; None where one side is constant."""
    def ranks(values):  # less the mean rank, and doubled
        return [sum((v > other) - (v < other) for other in values) for v in values]

    x, y = ranks(a), ranks(b)
    norm = sum(v * v for v in x) * sum(v * v for v in y)
    return sum(v * w for v, w in zip(x, y)) / norm**0.5 if norm else None


def effect_row(name, k, cases):
    """Errors with and without an effect, over the cases whose prediction it moves."""
    moved = [c for c in cases if c["without"][k] != c["predicted_us"]]
    return {"effect": name, "cases": len(moved), "with": errors_of(c["error"] for c in moved),
            "without": errors_of(c["without"][k] / c["measured_us"] - 1 for c in moved)}


def score(folder):
    """The answer as `--format json` prints it. InputError if steps were timed and no case counts."""
    path = os.path.join(folder, "score.csv")
    cases, effects = read_cases(read_table(path))
    peaks = read_peaks(os.path.join(folder, "peaks.csv"))
    counting = [c for c in cases if c["counts"]]
    if not counting and (cases or not peaks):
        raise InputError(f"{path}: no case counts: of each the rounds lie more than 10 % apart, or there is one alone, "
                         "or the machine's speed has changed by more than 5 %; measure on an idle machine")
    models = {}
    for c in counting:
        models.setdefault(c["model"], []).append(c)
    several = [of for of in models.values() if len(of) > 1]
    regrets = [min(of, key=lambda c: c["predicted_us"])["measured_us"] / min(c["measured_us"] for c in of) - 1 for of in several]
    orders = [spearman([c["predicted_us"] for c in of], [c["measured_us"] for c in of]) for of in several]
    orders = [order for order in orders if order is not None]

    def if_timed(value):
        return value if counting else None

    errors = errors_of(c["error"] for c in counting)
    return {
        "median_error": if_timed(errors["median"]), "worst_error": if_timed(errors["worst"]),
        "cases": len(counting), "not_counted": len(cases) - len(counting),
        **{key: errors_of(c[key] for c in counting)["median"] for key in ("noise", "recorded_noise", "drift")},
        "steady": errors_of(c["predicted_us"] * (1 + c["drift"]) / c["measured_us"] - 1 for c in counting),
        "regret": if_timed(mean(regrets or [0.0])), "worst_regret": if_timed(max(regrets, default=0.0)),
        "order": if_timed(mean(orders or [0.0])),
        "peaks": {**errors_of(p["error"] for p in peaks),
                  "told_well": mean([float(abs(p["error"]) <= MOST_ERROR_OF_PEAK) for p in peaks] or [0.0]), "count": len(peaks)},
        **{key: errors_of(c[key] / c["measured_us"] - 1 for c in counting) for key in ("no_transfers", "baechi")},
        "effects": [effect_row(name, k, counting) for k, name in enumerate(effects)],
        "rows": [{key: c[key] for key in ("model", "way", "cut", "predicted_us", "measured_us", "error", "noise", "drift", "counts")}
                 for c in cases]}  # fmt: skip


def errors_text(errors):
    return f"median {percent(errors['median'])}, worst {percent(errors['worst'])}"


def to_text(s):
    peaks = s["peaks"]
    memory = (f"peak memory of a process: {errors_text(peaks)}, {percent(peaks['told_well'])} within "
              f"{percent(MOST_ERROR_OF_PEAK)}, over {peaks['count']} peaks\n")
    if not s["cases"]:
        return "no step was timed\n" + memory
    table = [["model", "way", "cut", "predicted ms", "measured ms", "error", "noise", "drift"]]
    for c in s["rows"]:
        table.append([c["model"], c["way"], c["cut"], f"{c['predicted_us'] / 1e3:.2f}", f"{c['measured_us'] / 1e3:.2f}",
                      f"{100 * c['error']:+.1f} %" + " (not counted)" * (not c["counts"]),
                      percent(c["noise"]), f"{100 * c['drift']:+.1f} %"])
    effects = "".join(f"without '{e['effect']}': {errors_text(e['without'])} instead of {errors_text(e['with'])}, "
                      f"over the {e['cases']} cases that it moves\n" for e in s["effects"])
    all_errors = {"median": s["median_error"], "worst": s["worst_error"]}
    return columns(table) + (
        f"\nerror: {errors_text(all_errors)}, over {s['cases']} of {len(s['rows'])} cases (noise {percent(s['noise'])}; "
        f"recorded steps of one process alone {percent(s['recorded_noise'])})\n"
        f"at the machine's speed while it was measured (drift {percent(s['drift'])}): {errors_text(s['steady'])}\n"
        f"without transfers: {errors_text(s['no_transfers'])}\n"
        f"a link alone, as Baechi has it: {errors_text(s['baechi'])}\n"
        f"regret of the configuration predicted best: mean {percent(s['regret'])}, worst {percent(s['worst_regret'])}; "
        f"order (Spearman): {s['order']:.3f}\n{effects}{memory}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--program")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    flags = parser.parse_args()
    try:
        found = score(flags.out)
    except (InputError, OSError, UnicodeDecodeError) as error:
        print(error if isinstance(error, InputError) else f"{getattr(error, 'filename', flags.out)}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=2) if flags.format == "json" else to_text(found), end="\n" if flags.format == "json" else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
