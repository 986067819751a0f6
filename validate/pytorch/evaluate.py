"""./dev torch OUT [MODELS.py]: benchmarks; then records, predicts and freezes, and measures with several processes, model by model.

usage: evaluate.py BAECHI OUT [MODELS.py] [--models NAME,...] [--ways NAME,...] [--processes 2,4] [--rounds 3] [--device cpu] [--quick]
                [--only benchmark,record,...]

Without --processes: two, and then four where the machine has four cores.

`baechi validate torch OUT` scores what this leaves in OUT. Exit codes: 0; 1 steps of a GPU were asked for and none was timed; 2 a
mistake in the arguments or MODELS.py, or nothing was measured; 77 no GPU.
"""
import argparse
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import time

import torch

import mistakes
from predict import WAYS, Predictor, cases_of, of
from process import share_of_gpu, untimed

HERE = os.path.dirname(os.path.abspath(__file__))
STAGES = ["benchmark", "record", "predict", "measure"]
MOST_NOISE, MOST_DRIFT = 0.10, 0.05  # a case beyond either does not count


# Of every process: one thread, and an allocator that keeps its memory from step to step, as CUDA's does. Otherwise it
# gives pages back or not by what lies at the end of its heap, and a step takes 20 % more in one process than in another.
ENVIRONMENT = dict(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", PYTHONHASHSEED="0",
                   MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="1000000000000", MALLOC_ARENA_MAX="1")  # fmt: skip


def python(script, *arguments):
    with open(os.environ["EVALUATION_LOG"], "a") as log:
        return subprocess.Popen([sys.executable, "-W", "ignore", f"{HERE}/{script}", *map(str, arguments)],
                                env=dict(os.environ, **ENVIRONMENT), stderr=log)  # fmt: skip


def together(script, ranks, *arguments, watch=None, patience=60):
    """Runs the processes; false if one fails, or `watch` does not grow for `patience` seconds."""
    port = random.randrange(20000, 40000)
    running = [python(script, rank, ranks, port, *[a(rank) if callable(a) else a for a in arguments]) for rank in range(ranks)]
    size, since = -1, time.monotonic()
    while any(p.poll() is None for p in running):
        time.sleep(0.2)
        now = os.path.getsize(watch) if watch and os.path.exists(watch) else -1
        if now != size:
            size, since = now, time.monotonic()
        if any(p.poll() for p in running) or time.monotonic() - since > patience:
            for p in running:
                p.kill()
            return False
    return all(p.wait() == 0 for p in running)


def say(text):
    print(text, flush=True)


def refuse(found):
    """Ends the program: each line says what is wrong."""
    print("\n".join(found), file=sys.stderr)
    sys.exit(2)


def last_words(about=""):
    """The last line, of those that begin so, that a failed process left in the log, but for the warnings of PyTorch's libraries."""
    with open(os.environ["EVALUATION_LOG"], errors="replace") as log:
        said = [line.strip() for line in log if line.strip() and line.startswith(about) and not line.startswith(("W2", "[W", "WARNING"))]
    return f"{said[-1] if said else 'no message'} (all of it: {os.environ['EVALUATION_LOG']})"


def lines_of(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


class Evaluation:
    def __init__(self, arguments):
        self.given, self.out = arguments, os.path.abspath(arguments.out)
        self.path = os.path.abspath(arguments.models_py or f"{HERE}/models.py")
        self.models, names, found = mistakes.loaded(self.path)
        self.names = arguments.models.split(",") if arguments.models else names
        counts = sorted(map(str, WAYS))
        arguments.processes = arguments.processes or ",".join(n for n in counts if n == "2" or not untimed(int(n), arguments.device))
        self.processes = [n for n in WAYS if str(n) in arguments.processes.split(",")]
        ways = [way for n in self.processes for way in WAYS[n]]
        for option, known in ("models", names), ("processes", counts), ("ways", ways), ("only", STAGES):
            given = getattr(arguments, option)
            if unknown := [word for word in (given or "").split(",") if given and known and word not in known]:
                found.append(f"--{option}: no {', '.join(unknown)}; there are {', '.join(known)}")
        if arguments.rounds < 1:
            found.append(f"--rounds {arguments.rounds}: one is needed")
        stages = arguments.only.split(",")
        if {"record", "predict"} & set(stages) and not os.access(arguments.baechi, os.X_OK):
            found.append(f"{arguments.baechi}: no such program")
        for name in self.names if "record" in stages else []:
            found += mistakes.of_model(self.models, self.path, name, arguments.device) if name in names else []
        try:
            for folder in ("recorded", *(f"beside{core}" for core in range(max(WAYS))), "predicted", "measured"):
                os.makedirs(f"{self.out}/{folder}", exist_ok=True)
        except OSError as why:
            found.append(f"{self.out}: no folder to write to: {why.strerror}")
        if found:
            refuse(found)
        os.environ["EVALUATION_LOG"] = f"{self.out}/log.txt"
        if arguments.device == "cuda":  # of a GPU that processes share each has a part, the same one with two processes as with four
            os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share_of_gpu(max(self.processes)))
        for n in self.processes:
            if why := untimed(n, arguments.device):
                say(f"{why}: steps are not timed, peaks of memory are measured")

    def cases(self, name):
        ways = self.given.ways.split(",") if self.given.ways else None
        cases = [case for n in self.processes for case in cases_of(self.models, name, processes=n)]
        return [dict(c, layers=len(self.models.layers_of(name)), device=self.given.device) for c in cases if not ways or c["way"] in ways]

    def record(self, name):
        batches = sorted({case["batch"] for case in self.cases(name)}, reverse=True)
        done = python("record.py", 0, self.path, name, f"{self.out}/recorded", self.given.device, *batches).wait()
        predictor = Predictor(self.given.baechi, self.out)
        again = sorted({f"{case['batch']}@{starts}" for case in self.cases(name) if (starts := self.starts_again(predictor, case))})
        if again:
            done += python("record.py", 0, self.path, name, f"{self.out}/recorded", self.given.device, *again).wait()

        for n in self.processes:
            # Replicas compute all the time: their step is recorded while the other cores run the same recording.
            replicas = sorted({case["batch"] for case in self.cases(name) if "replicas" in case and case["processes"] == n})
            cores = range(1 if untimed(n, self.given.device) else n) if replicas else ()
            busy = [python("record.py", core, self.path, name, f"{self.out}/beside{core}", self.given.device, *replicas) for core in cores]
            done += sum(process.wait() for process in busy)
            done += not together("benchmark.py", n, f"{self.out}/recorded/{name}.weights{of(n)}.json", self.given.device, self.path, name, patience=30 * n)
        for batch in batches:  # one that failed costs itself alone
            if not os.path.exists(f"{self.out}/recorded/{name}_{batch}.json"):
                say(f"not recorded: {last_words(f'{name}, batch {batch}:')}")
        say(f"{name}: not recorded: {last_words()}" if done else f"{name}: recorded with batches {batches}")

    @staticmethod
    def starts_again(predictor, case):
        """The layers at which the case's stages compute otherwise than the recorded step, joined by +."""
        try:
            return predictor.again(predictor.with_chunks(case))
        except Exception:  # has no prediction either, and says why
            return ""

    def benchmark(self):
        for n in self.processes:
            if not together("benchmark.py", n, f"{self.out}/benchmark{of(n)}.json", self.given.device, patience=30 * n):
                refuse([f"the benchmark of the backend failed: {last_words()}"])
        say("benchmarked: sends, collectives")

    def predict(self, name):
        """Adds the model's predictions to predictions.json before any of its steps is measured with several processes."""
        predictor, made = Predictor(self.given.baechi, self.out), []
        for case in self.cases(name):
            try:
                made.append(predictor.predict(case))
            except Exception as why:  # costs itself alone
                say(f"{case['id']}: no prediction: {why}")
        text = json.dumps([case for case in self.predictions() if case["model"] != name] + made, indent=1)
        with open(f"{self.out}/predictions.json", "w") as file:
            file.write(text)
        say(f"{name}: {len(made)} predictions, frozen: sha256 of all so far {hashlib.sha256(text.encode()).hexdigest()}")

    def predictions(self):
        path = f"{self.out}/predictions.json"
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return json.load(file)

    def results(self, name, processes):
        """The files in which the processes write what they measure of a model."""
        return [f"{self.out}/measured/{name}{of(processes)}.{rank}.jsonl" for rank in range(processes)]

    def measure(self, name):
        for n in self.processes:
            cases = [case for case in self.predictions() if case["model"] == name and case["processes"] == n]
            if not cases:
                continue
            for path in self.results(name, n):
                open(path, "w").close()
            rounds = 1 if untimed(n, self.given.device) else self.given.rounds
            self.run_cases([dict(case, round=r) for r in range(rounds) for case in cases], n, self.results(name, n))
            say(f"{name}: measured {len(cases)} cases of {n} processes")

    def run_cases(self, waiting, processes, results):
        """Measures the cases that wait, and again what is left where one fails. One that fails twice is left out."""
        failures = []
        while waiting:
            job = f"{self.out}/measured/job.json"
            with open(job, "w") as file:
                json.dump(waiting, file)
            good = together("measure.py", processes, self.path, job, lambda rank: results[rank], watch=results[0])
            done = set.intersection(*({(line["case"], line["round"]) for line in lines_of(path) if "spans" in line} for path in results))
            failed = next((c for c in waiting if (c["id"], c["round"]) not in done), None)
            if good or failed is None:
                break
            failures.append(failed["id"])
            left_out = failures.count(failed["id"]) > 1
            say(f"{failed['id']}: round {failed['round']} failed{', so the case is left out' if left_out else ''}: {last_words()}")
            waiting = [c for c in waiting if (c["id"], c["round"]) not in done and not (left_out and c["id"] == failed["id"])]

    def measured(self):
        """Of each case: step, peaks and speed of the machine, by round."""
        found = {}
        for name, processes in {(case["model"], case["processes"]) for case in self.predictions()}:
            files = self.results(name, processes)
            if not all(map(os.path.exists, files)):
                continue
            ranks = [{(line["case"], line["round"]): line for line in lines_of(path) if "spans" in line} for path in files]
            for case, r in sorted(set.intersection(*(set(rank) for rank in ranks))):
                lines = [rank[case, r] for rank in ranks]
                steps = [max(b for _, b in s) - min(a for a, _ in s) for s in zip(*(line["spans"] for line in lines))]
                times = {"us": 1e6 * statistics.median(steps), "alone_us": 1e6 * statistics.mean(line["alone"] for line in lines)} if steps else {}
                found.setdefault(case, []).append({"peaks": [line.get("peak", 0) for line in lines], **times})
        return found

    def score(self):
        """score.csv and peaks.csv of all that was measured."""
        cases, measured = self.predictions(), self.measured()
        effects = sorted({effect for case in cases for effect in case.get("without", {})})
        with open(f"{self.out}/score.csv", "w") as score, open(f"{self.out}/peaks.csv", "w") as memory:
            columns = "".join(f",without_{effect}_us" for effect in effects)
            score.write(f"model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us,recorded_noise,drift{columns}\n")
            memory.write("model,way,cut,rank,predicted_bytes,measured_bytes\n")
            for case in cases:
                key, rounds = f"{case['model']},{case['way']},{case['cut']}", measured.get(case["id"])
                if not rounds:
                    continue
                if steps := [r["us"] for r in rounds if "us" in r]:
                    middle = statistics.median(steps)
                    noise = (max(steps) - min(steps)) / middle
                    drift = statistics.median(r["alone_us"] for r in rounds) / case["recorded_us"] - 1
                    counts = len(rounds) > 1 and noise <= MOST_NOISE and abs(drift) <= MOST_DRIFT
                    score.write(f"{key},{case['predicted_us']:.1f},{middle:.1f},{noise:.4f},{'yes' if counts else 'no'},"
                                f"{case['no_transfers_us']:.1f},{case['baechi_us']:.1f},{case['recorded_noise']:.4f},{drift:.4f}"
                                + "".join(f",{case['without'][effect]:.1f}" for effect in effects) + "\n")  # fmt: skip
                for rank, (predicted, peak) in enumerate(zip(case["peaks"], rounds[0]["peaks"])):
                    if peak > 0:
                        memory.write(f"{key},{rank},{predicted},{peak}\n")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("baechi")
    parser.add_argument("out")
    parser.add_argument("models_py", nargs="?")
    parser.add_argument("--models")
    parser.add_argument("--ways")
    parser.add_argument("--processes")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))  # cuda has never run
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")  # a few steps of each: to try the machinery
    parser.add_argument("--only", default=",".join(STAGES))
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no GPU for PyTorch", file=sys.stderr)
        sys.exit(77)
    evaluation = Evaluation(arguments)
    if evaluation.given.quick:
        os.environ["EVALUATION_QUICK"] = "1"
    os.environ["EVALUATION_DEVICE"] = evaluation.given.device
    timed = [n for n in evaluation.processes if not untimed(n, evaluation.given.device)]
    awake = [python("awake.py", core) for core in range(max(timed, default=0))]
    try:
        run(evaluation)
    except FileNotFoundError as why:
        refuse([f"{why.filename} is not there: an earlier stage makes it (--only)"])
    finally:
        for process in awake:
            process.kill()


def run(evaluation):
    stages = evaluation.given.only.split(",")
    if "predict" in stages and os.path.exists(f"{evaluation.out}/predictions.json"):
        os.remove(f"{evaluation.out}/predictions.json")
    if "benchmark" in stages:
        evaluation.benchmark()
    for name in evaluation.names:  # one model after the other, so that little time lies between its recording and its steps
        for stage in STAGES[1:]:
            if stage in stages:
                getattr(evaluation, stage)(name)
        evaluation.score()
    if "measure" in stages and not evaluation.measured():
        refuse(["no case was measured, and none is scored"])
    if "measure" in stages and evaluation.given.device == "cuda" and not any("us" in r for rounds in evaluation.measured().values() for r in rounds):
        print("no step was timed", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
