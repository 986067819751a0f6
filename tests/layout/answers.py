#!/usr/bin/env python3
"""answers.py BAECHI [--check]: writes cli/answers.schema.json, the schema of the verbs' output with --format json. It is
inferred from small runs of each verb: the types that occur, and as required the keys that always occur.
tests/layout/answers.txt has the meanings of keys; keys that end in a unit need none. With --check writes nothing.
Exit code 1 if the file is stale or a key has no meaning."""
import json
import os
import subprocess
import sys
import tempfile

BAECHI = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILE = os.path.join(ROOT, "cli/answers.schema.json")
TRACE = os.path.join(ROOT, "traces/data/two_towers.trace.json")
TWO = "--devices 2 --memory 4GiB"
TIGHT = "--devices 2 --memory 40MB"
NONE = "--devices 2 --memory 1MB"

# By verb: command lines, run in order in one folder.
RUNS = {
    "fit": [f"fit llama:num_hidden_layers=2,hidden_size=128,num_attention_heads=2,num_key_value_heads=2,vocab_size=256 --gpus 2xrtx_4090 --context 512 --memory {memory}"
            for memory in ("1GiB", "641MiB")],
    "place": [f"place {TRACE} --placer m_etf {TWO} -o placement.json", f"place {TRACE} --placer m_topo {TIGHT}",
              f"place {TRACE} --placer exact_dp {TWO}", f"place {TRACE} {NONE}"],
    "simulate": [f"simulate {TRACE} --placement placement.json {TWO}",
                 f"simulate {TRACE} --placement placement.json {TIGHT}",
                 f"simulate {TRACE} --placement placement.json {NONE} --objective max_load"],
    "simulate --pipeline": [f"simulate {TRACE} --placement placement.json {memory} --pipeline gpipe --micro-batches 4"
                            for memory in (TWO, NONE)],
    "bound": [f"bound {TRACE} {TWO}", f"bound {TRACE} {TIGHT}", f"bound {TRACE} {NONE}"],
    "bound --least-memory": [f"bound {TRACE} {TWO} --least-memory"],
    "explain": [f"explain {TRACE} --placement placement.json {TWO}",
                f"explain {TRACE} --placement placement.json {NONE}"],
    "trace info": [f"trace info {TRACE}"],
    "list": ["list", "list placers m_etf", "list devices"],
    "run": ["run slow_link --quiet --out rows", "run tight_memory --quiet --out tight"],
    "compare": ["compare rows"],
    "what-if": ["what-if what_if amp", "what-if what_if amp flash_attention"],
    "plan": ["plan gpt:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,length=128,vocab_size=1000 --batch 16 --nodes dgx_a100 --devices 8 "
             f"--as a100_megatron{memory}" for memory in ("", " --memory 1MiB")],
    "plan --check": ["plan gpt:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,length=128,vocab_size=1000 --batch 16 --nodes dgx_a100 --devices 8 "
                     f"--as a100_megatron --tensor 2 --pipeline 2 --micro-batch 2 --zero 1 --recompute off --check{memory}"
                     for memory in ("", " --memory 1MiB")],
    "arena": ["arena --placer single --instances hidden", "arena"],
    "arena duel": ["arena duel single m_etf --evaluations 40"],
    "study codesign": [f"study codesign {ROOT}/scenarios/examples/codesign.yaml"],
    "study configure": ["study configure latencies.csv --threads 2 --batch 2"],
    "validate published": ["validate published allreduce_a100 --data data"],
    "validate steps": ["validate steps results.csv steps.jsonl"],
    "validate torch": ["validate torch torch", "validate torch untimed"],
}
FILES = {
    "latencies.csv": "model,threads,batch,mean_ms\nsmall,1,1,6\nsmall,2,2,9\nlarge,2,2,30\n",
    "data/vtrain/allreduce/a100_gpu3.csv": "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n"
                                           "1048576,262144,float,50000,1,99000,1\n",
    "torch/score.csv": "model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us,without_copies_us\n"
                       "a,ddp,,90,100,0.02,yes,50,150,70\na,two_stages,3,96,80,0.04,yes,40,120,96\n",
    "untimed/score.csv": "model,way,cut,predicted_us,measured_us,noise,counts,no_transfers_us,baechi_us\n",
    "untimed/peaks.csv": "model,way,cut,rank,predicted_bytes,measured_bytes\na,four_ddp,,0,99,100\n",
    "results.csv": "graph,transforms,cluster.devices.kind,step_time_us,peak_bytes\na,none,h100,90,99\nb,none,h100,90,99\n",
    "steps.jsonl": '{"case": "a", "precision": "fp32", "step_seconds": 1e-4, "peak_bytes": 100}\n'
                   '{"case": "b", "precision": "fp32", "step_seconds": 1e-4}\n{"case": "c", "precision": "fp32"}\n',
    "torch/peaks.csv": "model,way,cut,rank,predicted_bytes,measured_bytes\na,ddp,,0,99,100\n",
}
# Objects whose keys are names given by the user or the run.
NAMED = {"placement", "facts", "kinds", "phases", "modules", "options"}


def output_of(command, folder):
    flags = ["--format", "json"]
    done = subprocess.run([BAECHI, *command.split(), *flags], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(os.environ, BAECHI_DATA=ROOT))
    if done.returncode != 0:
        sys.exit(f"baechi {command}: {done.stderr}")
    return json.loads(done.stdout)


def type_name(value):
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else names[type(value)]


def schema_of(values, name=""):
    """The common schema of `values`."""
    types = sorted({type_name(value) for value in values})
    if types == ["null"]:
        return {}  # no run has another value
    schema = {"type": types[0] if len(types) == 1 else types}
    items = [item for value in values if isinstance(value, list) for item in value]
    if items:
        schema["items"] = schema_of(items)
    objects = [value for value in values if isinstance(value, dict)]
    if objects and name in NAMED:
        inner = [value for thing in objects for value in thing.values()]
        if inner:
            schema["additionalProperties"] = schema_of(inner)
    elif objects:
        keys = dict.fromkeys(key for thing in objects for key in thing)
        schema["required"] = [key for key in keys if all(key in thing for thing in objects)]
        schema["properties"] = {key: schema_of([thing[key] for thing in objects if key in thing], key) for key in keys}
    return schema


def meanings():
    """The meanings of keys in tests/layout/answers.txt."""
    with open(os.path.join(ROOT, "tests/layout/answers.txt")) as file:
        return dict(line.rstrip("\n").split(" ", 1) for line in file)


def meaning(key, known):
    unit = {"_us": "in microseconds", "_ms": "in milliseconds", "_bytes": "in bytes"}
    return known.get(key) or next((text for end, text in unit.items() if key.endswith(end)), None)


def describe(schema, known, where, missing):
    for key, inner in schema.get("properties", {}).items():
        text = meaning(key, known)
        if text is None:
            missing.append(f"{where}.{key}")
        else:
            schema["properties"][key] = inner = {"description": text, **inner}
        describe(inner, known, f"{where}.{key}", missing)
    for part in ("items", "additionalProperties"):
        if part in schema:
            describe(schema[part], known, where + "[]", missing)


def main():
    known, missing, lines = meanings(), [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        subprocess.run([BAECHI, *"arena --placer single --hidden 3 -o hidden".split()], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, BAECHI_DATA=ROOT))
        for verb, commands in RUNS.items():
            schema = schema_of([output_of(command, folder) for command in commands])
            describe(schema, known, verb, missing)
            lines.append(f"  {json.dumps(verb)}: {json.dumps(schema, ensure_ascii=False)}")
    new = ('{"$schema": "https://json-schema.org/draft/2020-12/schema",\n'
           ' "title": "What the verbs of baechi print with --format json",\n'
           ' "$defs": {\n' + ",\n".join(lines) + "\n}}\n")
    stale = []
    if "--check" not in sys.argv:
        with open(FILE, "w") as file:
            file.write(new)
    else:
        with open(FILE) as file:
            old = file.read()
        stale = [f"stale: {line[:60]}" for line in new.splitlines() if line not in old.splitlines()]
    print("\n".join(stale + [f"no meaning in tests/layout/answers.txt: {key}" for key in missing]))
    sys.exit(1 if stale or missing else 0)


main()
