"""Times of collectives by op, number of ranks and size, for each type of links.

What was measured stands as its median. What nobody measured is predicted by a Gaussian process (kriging) over all
measurements, around NCCL's own model: a latency for each step of a ring, and the line rate of the links. The logarithm of
measured / modelled is a sum of random effects, each smooth over sizes. Their deviations were found by maximum likelihood
and by leaving out an op and a number of ranks at a time, and rounded; these errors say what they are worth.
"""
import math

import numpy as np

from board import Comparison, InputError, mean, median, percent
from collectives import SYSTEMS, measured_collectives

OPS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
RANKS = (2, 4, 8)
SIZES = [512 << i for i in range(21)]  # 512 B to 512 MiB
LARGE = [i for i, size in enumerate(SIZES) if size >= 1 << 20]
LINKS = {system["table"]: system for system in SYSTEMS.values() if system["table"] and system["inside_gb_s"]}
START, STEP, EXCHANGE, RATE = 6.6, 1.0, 0.5, 0.6  # us: NCCL's own start of LL (tuning.cc); a step
# of a ring and of an all_to_all. The share of the line rate


def on_pcie(k):
    return LINKS[k]["hardware"] == "pcie"


def ring(k, o, n):
    """NVLS, an all_reduce in the switch, is no ring."""
    return o != "all_to_all" and not (o == "all_reduce" and n == 8 and k in ("h100_nccl", "b200_nccl"))


# Effects (deviation, id by link type, op and ranks, sizes over which it is smooth in doublings, whether sizes are those of
# a rank's part): of the link type; the op; the number of ranks on a switch, and of two on a PCIe host; on PCIe of the host,
# whose sockets and switches more than two GPUs share, and where an all_to_all crosses sockets for each pair, a ring twice.
# NCCL changes its protocol at sizes of its own for each number of ranks and op: for rings at one size of a rank's part.
EFFECTS = ((0.45, lambda k, o, n: None if on_pcie(k) else k, 6.0, 0), (0.1, lambda k, o, n: o, 6.0, 0),
           (0.15, lambda k, o, n: n if not on_pcie(k) else k if n == 2 else None, 6.0, 0),
           (1.0, lambda k, o, n: k if on_pcie(k) and n > 2 else None, 6.0, 0),
           (0.65, lambda k, o, n: (k, n) if on_pcie(k) and n > 2 else None, 6.0, 0),
           (0.1, lambda k, o, n: (k, n, o == "all_to_all") if on_pcie(k) else None, 2.0, 0),
           (0.1, lambda k, o, n: (k, n, o == "all_to_all"), 1.0, 0), (0.07, lambda k, o, n: (k, o), 1.0, 0),
           (0.07, lambda k, o, n: k if ring(k, o, n) else None, 1.0, 1), (0.07, lambda k, o, n: (k, o, n), 2.0, 0),
           (0.07, lambda k, o, n: (k, o, n), 1e-3, 0))


def wire_bytes(op, ranks, size):
    return (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks * size


def modelled(k, op, ranks, size):
    steps = (ranks - 1) * {"all_reduce": 2.0 * STEP, "all_to_all": EXCHANGE}.get(op, STEP)
    return START + steps + wire_bytes(op, ranks, size) / (1e3 * RATE * float(LINKS[k]["inside_gb_s"]))


def at_sizes(rows):
    """Medians of equal sizes, and between them on straight lines of the logarithms; None below the least size."""
    by_size = {}
    for size, us in rows:
        by_size.setdefault(size, []).append(us)
    sizes = sorted(by_size)
    medians = {size: median(by_size[size]) for size in sizes}
    between = np.exp(np.interp(np.log(SIZES), np.log(sizes), np.log([medians[size] for size in sizes])))
    return [medians.get(s, t * max(1.0, s / sizes[-1])) if s >= sizes[0] else None for t, s in zip(between, SIZES)]


def measured_cells(rows, logs=(), without=None):
    """{(link type, op, ranks): times}. `logs`: all-reduces in public logs, whose set-up is slower at small sizes; b200
    has both, and what it says of the logs holds for h100."""
    cells, logged = {}, {}
    for row in rows:
        if row.key() != without:
            cells.setdefault((row.table, row.op, row.ranks), []).append((row.bytes, row.us))
    cells = {cell: at_sizes(times) for cell, times in cells.items()}
    for row in logs:
        if row[1] == 8:
            logged.setdefault(row[0], []).append((row[2], row[3]))
    logged = {table: at_sizes(times) for table, times in logged.items()}
    b200 = cells.get(("b200_nccl", "all_reduce", 8))
    if b200 and {"h100_nccl", "b200_nccl"} <= set(logged):
        cells["h100_nccl", "all_reduce", 8] = [
            log and log * fast / slow for log, fast, slow in zip(logged["h100_nccl"], b200, logged["b200_nccl"])]
    if "mi300x_rccl" in logged:
        times = logged["mi300x_rccl"]
        cells["mi300x_rccl", "all_reduce", 8] = [t or next(filter(None, times)) for t in times]
    return cells


def covariance(a, b):
    """Between points (link type, op, ranks, index of the size)."""
    total = np.zeros((len(a), len(b)))
    for deviation, effect, smooth, part in EFFECTS:
        ids = {}
        fa, fb = (np.array([-1 - side if effect(*p[:3]) is None else ids.setdefault(effect(*p[:3]), len(ids))
                            for p in points]) for side, points in enumerate((a, b)))
        xa, xb = (np.array([p[3] - part * math.log2(p[2]) for p in points]) for points in (a, b))
        near = np.exp(-((xa[:, None] - xb[None]) ** 2) / (2.0 * smooth**2))
        total += deviation**2 * (fa[:, None] == fb[None]) * near
    return total


class Kriging:
    def __init__(self, cells):
        cells = {cell: times for cell, times in cells.items() if cell[0] != "mi300x_rccl"}
        self.points = [(*cell, i) for cell, times in sorted(cells.items()) for i, t in enumerate(times) if t]
        self.y = np.array([math.log(cells[p[:3]][p[3]] / modelled(*p[:3], SIZES[p[3]])) for p in self.points])

    def solve(self):
        self.weights = np.linalg.solve(covariance(self.points, self.points), self.y)
        return self

    def times(self, cell):
        log = covariance([(*cell, i) for i in range(len(SIZES))], self.points) @ self.weights
        return [math.exp(v) * modelled(*cell, size) for v, size in zip(log, SIZES)]

    def left_out(self):
        """Logarithms of simulated / measured of each cell, predicted by the others."""
        inverse = np.linalg.inv(covariance(self.points, self.points))
        a, errors = inverse @ (self.y), {}
        for cell in dict.fromkeys(p[:3] for p in self.points):
            own = [i for i, p in enumerate(self.points) if p[:3] == cell]
            away = np.linalg.solve(inverse[np.ix_(own, own)], a[own])
            errors[cell] = {self.points[i][3]: -e for i, e in zip(own, away)}
        return errors


def public_logs(data, comparison):
    """(link type, ranks, bytes, us) of the all-reduces of one node in measured/public_logs."""
    rows = []
    for row in data.read("measured/public_logs/allreduce.csv", comparison):
        system = SYSTEMS.get(row["system"])
        if system and system["table"] and row.whole("nodes", 1) == 1:
            n, size = row.whole("ranks", 2), row.whole("bytes", 1)
            rows.append((system["table"], n, size, wire_bytes("all_reduce", n, size) / (1e3 * row.number("busbw_gb_s", 1e-6))))
    return rows


def complete(cells, kriging):
    """With what follows from the others: {link type: {(op, ranks): (times, measured)}}."""
    tables = {}
    for table in sorted({cell[0] for cell in cells}):
        for op in OPS:
            for n in RANKS:
                known = cells.get((table, op, n))
                if table == "mi300x_rccl" and not known:
                    continue
                times = kriging.times((table, op, n)) if table != "mi300x_rccl" and (not known or None in known) else known
                tables.setdefault(table, {})[op, n] = ([k or t for k, t in zip(known or times, times)], bool(known))
    return tables


def left_out(data):
    """For validate/published/left_out_collectives.csv: times from 1 MiB of each machine, op and number of ranks by the
    others: those of machines with the same links, else by kriging."""
    yield "system,op,ranks," + ",".join(str(SIZES[i]) for i in LARGE)
    comparison = Comparison()
    rows, logs = measured_collectives(data, comparison), public_logs(data, comparison)
    cells = measured_cells(rows, logs)
    errors = Kriging(cells).solve().left_out()
    for system, table, op, n in sorted({(row.system, row.table, row.op, row.ranks) for row in rows}):
        cell = table, op, n
        times = measured_cells(rows, logs, f"{system} {op} {n}").get(cell)
        times = times or [errors[cell].get(i) and t * math.exp(errors[cell][i]) for i, t in enumerate(cells[cell])]
        yield f"{system},{op},{n}," + ",".join(f"{times[i]:.4g}" for i in LARGE)


def fit(data):
    comparison = Comparison()
    rows, logs = measured_collectives(data, comparison), public_logs(data, comparison)
    if not rows:
        raise InputError(f"{data.folder}: no measured/aiconfigurator/nccl.csv")
    cells = measured_cells(rows, logs)
    kriging = Kriging(cells).solve()
    errors = kriging.left_out()
    text = ""
    for table, times in complete(cells, kriging).items():
        left = [abs(math.expm1(e[i])) for cell, e in errors.items() if cell[0] == table for i in LARGE if i in e]
        count = sum(row.table == table for row in rows) + sum(log[0] == table for log in logs)
        derived = [f"{op} {n}" for (op, n), (_, known) in times.items() if not known]
        lines = ",\n       ".join(f"{op}: {{\n         " + ",\n         ".join(
            f"{n}: [{', '.join(f'{t:.3g}' for t in times[op, n][0])}]" for n in RANKS if (op, n) in times) + "}"
            for op in OPS if any((op, n) in times for n in RANKS))
        text += f"  {table}:\n    {{model: table, first: 512 B, times: {{\n       {lines}}},\n     fitted: \"{count} rows"
        text += f", error from 1 MiB on an op and ranks left out {percent(mean(left))}, median {percent(median(left))}" if left else ""
        text += f"; {', '.join(derived)} follow from the others" if derived else ""
        source = ("RCCL, public log of Azure ND MI300X v5" if table == "mi300x_rccl" else
                  "NCCL's tests: AIConfigurator's measurements; all_reduce with NVLS where NCCL chooses it")
        text += f"\",\n     source: \"{source}\"}}\n"
    return text
