"""Predictions of steps from a recording and a benchmark, with baechi alone: no step of several processes is known here."""
import json
import os
import statistics
import subprocess

import stages

MICRO_BATCHES = (2, 4, 8)
# What a prediction knows beyond Baechi's link, each in a plain word: `baechi validate torch` tells what it is worth.
EFFECTS = ("sends_after_passes", "one_message_at_a_time", "transfers_of_the_core", "work_at_boundaries", "waits_make_cold", "copies_of_buckets",
           "sends_of_buffers", "sums_of_gradients", "a_busy_other_core", "waits_for_the_slower")  # fmt: skip
REPLICAS = ("all_reduce", "ddp", "zero1")
PLACERS = {"m_topo": "m_topo", "m_etf": "m_etf", "m_sct": "m_sct", "search": "local_search"}
PIPELINES = [f"{schedule}_{m}" for schedule in ("gpipe", "1f1b") for m in MICRO_BATCHES]
# By the number of processes. The names for two are older, and no prefix tells them.
WAYS = {2: ("two_stages", *PIPELINES, *REPLICAS, *PLACERS), 4: tuple(f"four_{way}" for way in ("stages", *PIPELINES, *REPLICAS))}


def starts_of_four(cuts, count):
    """Where the second, third and fourth of four stages begin: the first three of the cuts, or half of the longest run of layers for each
    that is missing. None if there are not four layers."""
    starts = sorted(list(dict.fromkeys(cuts))[:3])
    while len(starts) < min(3, count - 1):
        first, end = max(zip([0, *starts], [*starts, count]), key=lambda run: run[1] - run[0])
        starts = sorted([*starts, (first + end) // 2])
    return starts if len(starts) == 3 else None


def cases_of(models, name, placed=True, processes=2):
    """What so many processes are predicted and measured to do: way, cut, and who runs what. A cut is the layers at which the stages behind
    the first one begin, joined by +."""
    count, batch, cases = len(models.layers_of(name)), models.batch_of(name), []
    cuts = [c for c in models.cuts_of(name) if 0 < c < count]
    cuts = [[c] for c in cuts] if processes == 2 else [starts for starts in [starts_of_four(cuts, count)] if starts]

    def add(way, cut="", micro_batches=1, parts=1, **more):
        if batch % (micro_batches * parts) == 0:
            way = f"four_{way}" if processes == 4 else way
            cases.append({"id": f"{name} {way} {cut}".strip(), "model": name, "way": way, "cut": cut, "batch": batch // micro_batches // parts,
                          "micro_batches": micro_batches, "processes": processes, **more})  # fmt: skip

    for starts in cuts:
        cut, chunks = "+".join(map(str, starts)), [[rank, *run] for rank, run in enumerate(zip([0, *starts], [*starts, count]))]
        add("stages" if processes == 4 else "two_stages", cut, chunks=chunks)
        for m in MICRO_BATCHES:
            if starts == cuts[0] or m == 4:
                add(f"gpipe_{m}", cut, m, schedule="gpipe", chunks=chunks)
                add(f"1f1b_{m}", cut, m, schedule="1f1b", chunks=chunks)
    for way in REPLICAS:
        add(way, parts=processes, replicas=way)
    for way in PLACERS if placed and processes == 2 else ():
        add(way)  # its chunks are found when it is placed
    return cases


def of(processes):
    """What the name of a file ends with that is of so many processes."""
    return "" if processes == 2 else f"_of_{processes}"


class Machine:
    """What the benchmark says of so many processes and of their memory."""

    def __init__(self, folder, processes):
        self.processes = processes
        with open(f"{folder}/benchmark{of(processes)}.json") as file:
            found = json.load(file)
        rows = {row["bytes"]: row for row in found["rows"]}
        large = 1 << 22
        middle = 1 << 18
        small = [row for size, row in rows.items() if size <= 1 << 14]
        self.latency = min(row["send_us"] for row in small)
        self.boundary = max(0, min(row["boundary_us"] for row in small) - self.latency)  # once, however many tensors are sent
        self.bandwidth = (large - middle) / max(1e-9, rows[large]["boundary_us"] - rows[middle]["boundary_us"]) / 1e3  # GB/s
        self.sums = {size: row["all_reduce_us"] for size, row in rows.items()}
        self.free = f"{folder}/free{of(processes)}.csv"
        with open(self.free, "w") as file:
            file.write(f"ranks,bytes,us\n{processes},1,0.001\n{processes},1000000000000,0.001\n")

    def table(self, path, of_model, zero):
        """Times of collectives: of small sums anywhere, of larger ones behind a step of the model. ZeroRedundancyOptimizer of PyTorch sums
        all gradients, and then sends each new weight by itself, all in `weights_us`."""
        sums = {row["bytes"]: row["all_reduce_us"] for row in of_model["rows"]}
        sums.update({size: us for size, us in self.sums.items() if size < min(sums)})
        with open(path, "w") as file:
            file.write("kind,ranks,bytes,us\n")
            for kind in ("all_reduce", "reduce_scatter") if zero else ("all_reduce",):
                file.writelines(f"{kind},{self.processes},{size},{us:.1f}\n" for size, us in sorted(sums.items()))
            if zero:
                file.writelines(f"all_gather,{self.processes},{size},{of_model['weights_us']:.1f}\n" for size in (1, 10**12))
        return path


def rate(size, us):
    return f"{size / 1e3 / max(us, 1e-3):.4f} GB/s"


class Predictor:
    def __init__(self, baechi, folder):
        self.baechi, self.folder, self.machines, self.traces = baechi, folder, {}, {}
        os.makedirs(f"{folder}/predicted", exist_ok=True)

    def machine(self, case):
        if case["processes"] not in self.machines:
            self.machines[case["processes"]] = Machine(self.folder, case["processes"])
        return self.machines[case["processes"]]

    def run(self, *arguments):
        done = subprocess.run([self.baechi, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
        return done.stdout

    def again(self, case):
        """The layers, joined by +, at which stages of the case compute otherwise than the recorded step: it is recorded in such stages, too."""
        starts = [first for _, first, _ in case.get("chunks", [])[1:]]
        return "+".join(map(str, sorted(set(starts) & set(self.record(case, "recorded").get("otherwise", [])))))

    def trace(self, case):
        """The step as a trace: where its file is, and its content. Of replicas: as recorded beside a busy core."""
        beside = "replicas" in case and case.get("without") != "a_busy_other_core"
        name, batch, where = case["model"], case["batch"], "beside0" if beside else "recorded"
        if starts := self.again(case):
            batch = f"{batch}@{starts}"
        if (name, batch, where) not in self.traces:
            prefix, path = f"{self.folder}/{where}/{name}_{batch}", f"{self.folder}/predicted/{where}_{name}_{batch}.trace.json"
            with open(prefix + ".json") as file:
                step = json.load(file)["step_seconds"]
            options = f"kineto={prefix}.*.kineto.json,step_time={1e6 * step:.0f} us,optimizer=as_ready"
            self.run("trace", "convert", prefix + ".et.json", path, "--importer", "pytorch:" + options)
            with open(path) as file:
                self.traces[name, batch, where] = path, json.load(file)
        return self.traces[name, batch, where]

    def scenario(self, case, tensors, rules=True, free=False):
        """The machine as a scenario; `tensors` cross a boundary in a pass. Without `rules`: as Baechi has it, a link and nothing else."""
        m, without = self.machine(case), case.get("without")
        latency = m.latency
        if rules and "chunks" in case:
            more = m.boundary if without != "work_at_boundaries" else 0
            if without != "waits_make_cold":  # a stage waits long before its first pass forward and its first one backward
                more += 1e6 * self.record(case, "recorded")["after_wait_seconds"] / case["micro_batches"]
            latency += more / tensors
        link = {"bandwidth": "1000 GB/s", "latency": "0 us"} if free else {"bandwidth": f"{m.bandwidth:.4f} GB/s", "latency": f"{latency:.1f} us"}
        engine = {"queue": "program", "overlap": not rules or without == "transfers_of_the_core",
                  "transfers": "duplex" if not rules or without == "one_message_at_a_time" else "sequential"}  # fmt: skip
        said = {"graph": {"import": self.trace(case)[0]},
                "cluster": {"devices": {"count": m.processes, "memory": "64 GiB"}, "link": link},
                "engine": engine if rules or free else {},
                "transforms": [], "placers": ["single"]}  # fmt: skip
        if "chunks" not in case:
            size = self.gradient_bytes(case)
            flat = case["replicas"] == "all_reduce"
            mode = {"replicas": m.processes, "mode": {"all_reduce": "after", "ddp": "ddp", "zero1": "zero1"}[case["replicas"]]}
            if rules:
                mode["send"] = "after" if flat else "beside"
            if rules and without != "copies_of_buckets":
                ours = self.of_model(case)  # gradients are copied there and back
                mode["fill"] = mode["empty"] = rate(size, ours["flat_us" if flat else "ddp_us"] / 2)
            table = m.free if free else m.table(f"{self.folder}/predicted/collectives.csv", self.of_model(case), case["replicas"] == "zero1")
            said["cluster"]["collectives"] = {"model": "table", "file": table}
            mode["stateless"] = True
            said["transforms"] = [{"data_parallel": mode}]
        elif rules:
            said["transforms"] = [{"send_after_pass": {"asked": True}}] if without != "sends_after_passes" else []
            if case["micro_batches"] > 1 and without != "sums_of_gradients":
                n = case["micro_batches"]  # the first micro-batch adds nothing
                added = rate(self.gradient_bytes(case), self.of_model(case)["add_us"] * (n - 1) / n)
                said["transforms"].append({"accumulate": {"rate": added}})
        return said

    def recorded(self, case):
        """The middle of the recorded steps in us, and how far their middle half lies apart: what one process alone does."""
        low, middle, high = statistics.quantiles(self.steps(case, "beside0" if "replicas" in case else "recorded"), n=4)
        return 1e6 * middle, (high - low) / middle

    def record(self, case, where):
        path = f"{self.folder}/{where}/{case['model']}_{case['batch']}.json"
        if not os.path.exists(path):
            raise RuntimeError(f"its step with a batch of {case['batch']} was not recorded")
        with open(path) as file:
            return json.load(file)

    def steps(self, case, where):
        return self.record(case, where)["all"]

    def wait_us(self, case):
        """Replicas end a step together: how much later the slower of two ends."""
        if "replicas" not in case or case.get("without") == "waits_for_the_slower":
            return 0.0
        return self.of_model(case)["wait_us"]

    def buffers_us(self, case):
        """DistributedDataParallel sends buffers, such as running statistics, before the forward pass."""
        if case.get("replicas") not in ("ddp", "zero1") or case.get("without") == "sends_of_buffers":
            return 0.0
        return self.of_model(case)["buffers_us"]

    def of_model(self, case):
        """What the benchmark says of the model's parameters."""
        with open(f"{self.folder}/recorded/{case['model']}.weights{of(case['processes'])}.json") as file:
            found = json.load(file)
        if case.get("replicas") in ("ddp", "zero1") and "refused" in found:
            raise RuntimeError(f"DistributedDataParallel refuses the model: {found['refused']}")
        return found

    def gradient_bytes(self, case):
        _, trace = self.trace(case)
        updates = {o["name"] for o in trace["ops"] if o["phase"] == "update"}
        outputs = {(e["from"], e.get("output", 0)) for e in trace["edges"] if e["to"] in updates}
        ops = {o["name"]: o for o in trace["ops"]}
        gradients = [ops[op]["outputs"][k] for op, k in outputs if ops[op]["phase"] == "backward"]
        return sum(gradient["bytes"] for gradient in gradients if not gradient.get("reference"))

    def place(self, case):
        """The chunks that a placer makes, where a device has room for 0.55 of the step, or, if none fits, for more. m_topo counts
        the outputs of all ops as if they stayed, so that it needs several times the step."""
        path, trace = self.trace(case)
        peak = max(d["peak_bytes"] for d in self.simulate(dict(case, chunks=[[0, 0, 1 << 20]]))["devices"])
        for share in (0.55, 0.7, 0.85, 1, 2, 4, 8, 16):
            answer = json.loads(self.run("place", path, "--placer", PLACERS[case["way"]], "--transform", "by_module:depth=2", "--devices", 2,
                                         "--memory", f"{int(share * peak)} B", "--bandwidth", f"{self.machine(case).bandwidth:.4f} GB/s",
                                         "--latency", f"{self.machine(case).latency:.1f} us", "--format", "json"))  # fmt: skip
            if answer["status"] == "ok":
                break
        else:
            raise RuntimeError("no placement fits")
        devices, chunks = {}, []
        for op in trace["ops"]:
            parts = op.get("module", "").split(".")
            if parts[0] == "layers" and len(parts) > 1:
                devices.setdefault(int(parts[1]), []).append(answer["placement"][op["name"]])
        for layer in range(case["layers"]):
            device = statistics.mode(devices[layer]) if layer in devices else (chunks[-1][0] if chunks else 0)
            if chunks and chunks[-1][0] == device:
                chunks[-1][2] = layer + 1
            else:
                chunks.append([device, layer, layer + 1])
        return chunks

    def write(self, name, content):
        path = f"{self.folder}/predicted/{name}"
        with open(path, "w") as file:
            json.dump(content, file)
        return path

    def simulate(self, case, **how):
        path, trace = self.trace(case)
        recorded, ranks = self.record(case, "recorded"), [0]
        state = recorded.get("state", {"layers": [], "without_gradient": 0})
        more = state["without_gradient"] if case.get("replicas") in ("ddp", "zero1") else 0  # they have buckets, too
        trace = stages.with_unused(stages.with_buffers(trace, recorded["inputs"]), state["layers"], more)
        if case["micro_batches"] > 1:
            trace = stages.added_up(trace, case["micro_batches"])
        chunk = {o["name"]: 0 for o in trace["ops"]}
        if "chunks" in case:
            again = self.again(case)
            trace = stages.of_stages(trace) if again else trace
            chunk = stages.chunk_of_ops(case["chunks"], trace, bool(again))
            parts = stages.with_parts(stages.sent_once(trace, chunk), chunk)
            floats = self.record(case, "recorded").get("float_inputs", [])
            trace, chunk = stages.passed_on(*stages.with_gradients_of_inputs(*parts, floats))
            ranks = [rank for rank, _, _ in case["chunks"]]
        placed = {name: ranks[c] for name, c in chunk.items()}
        path = self.write("placed.trace.json", stages.with_inputs(trace, placed))
        scenario = self.write("scenario.yaml", self.scenario(case, stages.tensors_at_boundary(trace, chunk), **how))
        placement = self.write("placement.json", {"format": "baechi-placement", "version": 1, "graph": trace["name"],
                                                  "devices": case["processes"], "placement": placed})  # fmt: skip
        pipeline = []
        if case["micro_batches"] > 1:
            schedule = {"gpipe": "gpipe", "1f1b": "1f1b_flush"}[case["schedule"]]
            pipeline = ["--pipeline", schedule, "--micro-batches", case["micro_batches"]]
        return json.loads(self.run("simulate", path, "--placement", placement, "--scenario", scenario, "--format", "json", *pipeline))

    def step_us(self, case, **how):
        answer = self.simulate(case, **how)
        if answer["status"] != "ok":
            raise RuntimeError(answer["status"])
        time = answer["pipeline"]["time_us"] if case["micro_batches"] > 1 else answer["step_time_us"]
        return time + (self.wait_us(case) + self.buffers_us(case) if how.get("rules", True) else 0.0)

    def waiting_inputs(self, case):
        """Bytes of the inputs of micro-batches that are not under way at the peak: the runner has them from the beginning."""
        under_way = len(case["chunks"]) if case["schedule"] == "1f1b" else case["micro_batches"]
        return max(0, case["micro_batches"] - under_way) * sum(self.record(case, "recorded")["inputs"])

    def with_chunks(self, case):
        """The case with who runs what; a placer's is found here."""
        if "chunks" in case or case["way"] not in PLACERS:
            return case
        chunks = self.place(case)
        if {first for _, first, _ in chunks[1:]} & set(self.record(case, "recorded").get("shared", ())):
            raise RuntimeError("the placement divides layers that share a parameter: each stage would train its own")
        return dict(case, chunks=chunks, cut="+".join(str(first) for _, first, _ in chunks[1:]))

    def predict(self, case):
        """The case with its prediction, and with what the two that know less say."""
        case = self.with_chunks(case)
        answer = self.simulate(case)
        if answer["status"] != "ok":
            raise RuntimeError(answer["status"])
        streams = case["micro_batches"] > 1
        peaks = [device["peak_bytes"] for device in (answer["pipeline"]["stages"] if streams else answer["devices"])]
        if streams:
            peaks[case["chunks"][0][0]] += self.waiting_inputs(case)
        recorded_us, noise = self.recorded(case)
        return dict(case, predicted_us=self.step_us(case),
                    peaks=peaks if "chunks" in case else peaks[:1] * case["processes"],
                    recorded_us=recorded_us, recorded_noise=noise,
                    without={effect: self.step_us(dict(case, without=effect)) for effect in EFFECTS},
                    no_transfers_us=self.step_us(case, rules=False, free=True), baechi_us=self.step_us(case, rules=False))  # fmt: skip
