"""Times of collectives by op, number of ranks and size, for each type of links.

What was measured stands as its median. What nobody measured is predicted by a Gaussian process (kriging) over all
measurements: the logarithm of us / byte on the wire is a sum of random effects of the link type, the op, the number of
ranks and their pairs, each smooth over sizes. Its variances were found by maximum likelihood on sizes from 1 MiB, and
rounded; errors with an op and a number of ranks left out say what they are worth.
"""
import math

import numpy as np

from board import Comparison, InputError, median
from collectives import SYSTEMS, measured_collectives

OPS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
RANKS = (2, 4, 8)
SIZES = [512 << i for i in range(21)]  # 512 B to 512 MiB
LARGE = [i for i, size in enumerate(SIZES) if size >= 1 << 20]
PCIE = {"l40s_nccl", "rtx_pro_6000_nccl"}
# Effects: of the link type; of what joins the GPUs (switch, PCIe), of the op, of both together; of the number of ranks
# by what joins the GPUs; and on PCIe of the number by link type, because hosts differ in their sockets and switches.
EFFECTS = (lambda k, o, n: k, lambda k, o, n: k in PCIE, lambda k, o, n: o, lambda k, o, n: (k in PCIE, o),
           lambda k, o, n: (k in PCIE, n), lambda k, o, n: (k, n) if k in PCIE else None)
# NCCL changes its protocol at sizes of its own for each number of ranks, but for an all_to_all: of one size and its
# neighbours.
PROTOCOLS = (lambda k, o, n: (k, n, o == "all_to_all"), lambda k, o, n: (k, o))
# Deviations of EFFECTS and PROTOCOLS; smoothness; own effect; noise.
NUMBERS = np.log([0.45, 1.3, 0.1, 0.07, 0.1, 0.65, 0.1, 0.05, 8.0, 0.06, 0.09])


def wire_bytes(op, ranks, size):
    return (2.0 if op == "all_reduce" else 1.0) * (ranks - 1) / ranks * size


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


def covariance(h, a, b):
    """Between points (link type, op, ranks, index of the size)."""
    s = np.exp(2.0 * h)
    xa, xb = (np.array([p[3] for p in points], float) for points in (a, b))
    apart = (xa[:, None] - xb[None]) ** 2
    total, smooth, near = np.zeros(apart.shape), np.exp(-apart / (2.0 * s[-3])), np.exp(-apart / 2.0)
    for variance, effect in zip(s, EFFECTS + PROTOCOLS):
        ids = {}
        fa, fb = (np.array([-1 - side if effect(*p[:3]) is None else ids.setdefault(effect(*p[:3]), len(ids))
                            for p in points]) for side, points in enumerate((a, b)))
        total += variance * (fa[:, None] == fb[None]) * (near if effect in PROTOCOLS else smooth)
    trend = [np.stack([np.ones_like(x), (x - 10) / 10, ((x - 10) / 10) ** 2]) for x in (xa, xb)]
    cells = {}
    ca, cb = (np.array([cells.setdefault(p[:3], len(cells)) for p in points]) for points in (a, b))
    own = (ca[:, None] == cb[None]) * (s[-2] * np.exp(-apart / 8.0) + s[-1] * (apart == 0.0))
    return total + own + 9.0 * trend[0].T @ trend[1]


class Kriging:
    def __init__(self, cells, h=NUMBERS):
        cells = {cell: times for cell, times in cells.items() if cell[0] != "mi300x_rccl"}
        self.points = [(*cell, i) for cell, times in sorted(cells.items()) for i, t in enumerate(times) if t]
        self.y = np.array([math.log(cells[p[:3]][p[3]] / wire_bytes(p[1], p[2], SIZES[p[3]])) for p in self.points])
        self.h, self.mean = h, self.y.mean()

    def solve(self):
        self.weights = np.linalg.solve(covariance(self.h, self.points, self.points), self.y - self.mean)
        return self

    def times(self, cell):
        points = [(*cell, i) for i in range(len(SIZES))]
        log = self.mean + covariance(self.h, points, self.points) @ self.weights
        return [math.exp(v) * wire_bytes(cell[1], cell[2], size) for v, size in zip(log, SIZES)]

    def left_out(self):
        """Logarithms of simulated / measured of each cell, predicted by the others."""
        inverse = np.linalg.inv(covariance(self.h, self.points, self.points))
        a, errors = inverse @ (self.y - self.mean), {}
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


def percent(values):
    return f"{100.0 * sum(values) / len(values):.1f} %, median {100.0 * median(values):.1f} %"


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
        text += f", error from 1 MiB on an op and ranks left out {percent(left)}" if left else ""
        text += f"; {', '.join(derived)} follow from the others" if derived else ""
        source = ("RCCL, public log of Azure ND MI300X v5" if table == "mi300x_rccl" else
                  "NCCL's tests: AIConfigurator's measurements; all_reduce with NVLS where NCCL chooses it")
        text += f"\",\n     source: \"{source}\"}}\n"
    return text
