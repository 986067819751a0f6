"""Collectives that were measured alone: vTrain's, public logs of nccl-tests, and AIConfigurator's."""
import math
from dataclasses import dataclass, replace

from board import Comparison, InputError, Scored, errors_of, facts
from vtrain import least_relative_deviations

MIB = 1 << 20
SYSTEMS = {system["name"]: system for system in facts("nccl_systems.csv")}


@dataclass
class Collective:
    op: str
    ranks: int
    bytes: int
    us: float
    line: str
    system: str = ""
    table: str = ""  # the type of collectives that has its times

    def moved(self):
        """Bytes that a rank sends in an all_reduce."""
        return 2.0 * self.bytes * (self.ranks - 1) / self.ranks

    def key(self):
        return f"{self.system} {self.op} {self.ranks}"


def ask(measured, cluster_of):
    """Simulated microseconds; `cluster_of` gives each measurement's section `cluster`. A question for each cluster."""
    questions = {}
    for m in measured:
        cluster = cluster_of(m)
        question = questions.setdefault(str(cluster), {"ask": "collectives", "cluster": cluster, "collectives": []})
        question["collectives"].append([m.op, m.bytes, m.ranks])
    answers = yield list(questions.values())
    times = {}
    for key, answer in zip(questions, answers):
        if "error" in answer:
            raise InputError(answer["error"])
        times[key] = iter(answer["times_us"])
    return [next(times[str(cluster_of(m))]) for m in measured]


def vtrain_all_reduces(data, gpu, comparison, ranks=range(2, 33)):
    """vTrain's out-of-place times."""
    rows = []
    for n in ranks:
        for row in data.read(f"vtrain/allreduce/{gpu}_gpu{n}.csv", comparison):
            with comparison.row(row):
                rows.append(Collective("all_reduce", n, row.whole("size(B)", 1), row.number("time(ns)", 1.0) / 1e3,
                                       row.line))
    return rows


def score_vtrain(data, gpu, node):
    all_of_them = Comparison()
    measured = vtrain_all_reduces(data, gpu, all_of_them)
    times = yield from ask(measured, lambda m: {"nodes": {"kind": node}})
    all_of_them.rows = [
        Scored(f"{m.ranks} GPUs, {m.bytes // MIB} MiB", f"{m.ranks} GPUs", m.us, us, m.moved(), size=float(m.bytes),
               lines=[m.line], family=f"{m.ranks} GPUs") for m, us in zip(measured, times)]
    all_of_them.left_out = left_out_ranks(measured)
    if measured and not all_of_them.left_out:
        times = yield from ask(measured, lambda m: {"nodes": {"kind": node}, "collectives": {"model": "nccl"}})
        all_of_them.left_out = {"group": "machine (NCCL's own model at the line rate)", "free": 0, **errors_of(
            [replace(row, simulated=us) for row, us in zip(all_of_them.rows, times)])}
    return all_of_them


def features_of(m):
    """Of the line of an all_reduce through a switch."""
    return {0: 1.0, 1: 2.0 * (m.ranks - 1), 2: m.moved(), 3: m.moved() / m.ranks}


def left_out_ranks(measured):
    """Errors of lines fitted to the other numbers of GPUs; None where these determine no line."""
    ranks, predicted = sorted({m.ranks for m in measured}), []
    for n in ranks if len(ranks) > 2 else ():
        x = least_relative_deviations([(features_of(m), m.us) for m in measured if m.ranks != n], 4)
        predicted += [Scored(measured=m.us, simulated=sum(x[i] * f for i, f in features_of(m).items()))
                      for m in measured if m.ranks == n]
    return {"group": "number of GPUs", **errors_of(predicted)} if predicted else None


def score_allreduce_a100(data):
    return score_vtrain(data, "a100", "dgx_a100")


def score_allreduce_v100(data):
    return score_vtrain(data, "v100", "dgx1_v100")


def score_nccl_unfitted(data):
    """With line rates of data sheets. None of them is fitted."""
    all_of_them = Comparison()
    measured, clusters = [], {}
    for row in data.read("papers/nccl_allreduce.csv", all_of_them):
        with all_of_them.row(row):
            m = Collective("all_reduce", row.whole("gpus", 1), row.whole("bytes"), row.number("time_us", 1e-3), row.line,
                           row["system"])
            if m.bytes < 1_000_000:
                raise InputError("below a megabyte, where start-up decides")
            system = SYSTEMS.get(m.system)
            if not system or not system["devices"]:
                raise InputError(f"{row.where('system')}: no system '{m.system}' (systems: "
                                 f"{', '.join(s for s in SYSTEMS if SYSTEMS[s]['devices'])})")
            nodes = {"count": row.whole("nodes", 1), "devices": {"count": system["devices"], "memory": "1 GB"},
                     "link": {"bandwidth": f"{system['inside_gb_s']} GB/s"}}
            if system["nics"] != "0":
                nodes.update(nics=system["nics"], network={"bandwidth": f"{system['nic_gb_s']} GB/s"})
            clusters[m.line] = {"nodes": nodes, "collectives": {"model": "nccl", "hardware": system["hardware"]}}
            measured.append(m)
    times = yield from ask(measured, lambda m: clusters[m.line])
    all_of_them.rows = [
        Scored(f"{m.system}, {m.bytes // MIB} MiB", m.system, m.us, us, m.moved(), m.system, size=float(m.bytes),
               lines=[m.line]) for m, us in zip(measured, times)]
    return all_of_them


def measured_collectives(data, comparison):
    """AIConfigurator's, of GPUs of one node."""
    rows = []
    for row in data.read("measured/aiconfigurator/nccl.csv", comparison):
        with comparison.row(row):
            system = SYSTEMS.get(row["system"])
            if not system or not system["table"]:
                raise InputError(f"no kind of collectives for the system '{row['system']}'")
            op = "all_to_all" if row["op"] == "alltoall" else row["op"]
            if op not in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
                raise InputError(f"no collective '{row['op']}'")
            rows.append(Collective(op, row.whole("gpus", 2), row.whole("bytes", 1), 1e3 * row.number("ms", 1e-6),
                                   row.line, row["system"], system["table"]))
    return rows


def score_collectives(data):
    all_of_them = Comparison()
    measured = measured_collectives(data, all_of_them)
    for m in measured:
        if m.bytes < MIB:
            all_of_them.skip(m.line, "below 1 MiB, where the start decides")
    measured = [m for m in measured if m.bytes >= MIB]
    times = yield from ask(measured, lambda m: {"nodes": {"devices": {"count": m.ranks, "memory": "1 GB"}, "link": {"bandwidth": "1 GB/s"}},
                                                "collectives": {"kind": m.table}})
    all_of_them.rows = [
        Scored(f"{m.key()}, {m.bytes // MIB} MiB", f"{m.system} {m.op}", m.us, us, m.bytes * ((m.ranks - 1) / m.ranks),
               f"{m.system} {m.op}", size=float(m.bytes), lines=[m.line], family=m.system)
        for m, us in zip(measured, times)]
    known = {(row["system"], row["op"], int(row["ranks"])): row for row in facts("left_out_collectives.csv")}
    all_of_them.left_out = {"group": "machine, op and number of ranks", **errors_of([
        replace(row, simulated=by_others(known.get((m.system, m.op, m.ranks)), m.bytes, row.simulated))
        for m, row in zip(measured, all_of_them.rows)])}
    return all_of_them


def by_others(row, size, simulated):
    """The time by other ops and numbers of ranks; what is simulated where nobody measured it."""
    if row is None:
        return simulated
    sizes = [int(key) for key in row if key.isdigit()]
    at = min(max(size, sizes[0]), sizes[-1])
    below, above = max(s for s in sizes if s <= at), min(s for s in sizes if s >= at)
    part = math.log(at / below) / math.log(above / below) if above > below else 0.0
    return size / at * float(row[str(below)]) ** (1.0 - part) * float(row[str(above)]) ** part
