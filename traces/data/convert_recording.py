#!/usr/bin/env python3
"""Turn a recording of one PyTorch training step into a trace. Run by hand; its output is committed.

usage: convert_recording.py RECORDING OUT.trace.json.zst [--colocate readers|updates|forward]
       convert_recording.py --check TRACE...

RECORDING is DIR/MODEL with MODEL.eg.json.zst (execution graph), MODEL.events.jsonl.zst (times,
memory) and MODEL.meta.json beside each other. PROVENANCE.md says what is kept, merged and dropped.
Needs Python 3.8 and the zstd command.
"""
import argparse, json, os, re, subprocess, sys
from collections import Counter, defaultdict

ALLOCATE = {"empty", "empty_strided", "empty_like", "resize_", "resize_as_", "as_strided_"}
FILL_OR_COPY = {"fill_", "zero_", "zeros", "copy_", "to", "_to_copy", "clone", "contiguous"}
WHOLE = {"dropout"}  # one op although it calls several kernels: mask and result belong together
STATE_COPIES = {"SGD": 1, "Adam": 2}  # momentum; first and second moment


def decompress(path):
    return subprocess.run(["zstd", "-dcq", "--long=27", path], check=True, stdout=subprocess.PIPE).stdout


class Node:
    """A recorded call: an operator, or a frame of autograd or of the optimizer around operators."""

    def __init__(self, raw, event, line):
        self.name = raw["name"].replace("aten::", "")
        self.is_operator = bool(raw["op_schema"])
        self.children, self.parent, self.op, self.source = [], None, None, None
        self.event, self.line, self.arguments = event, line, raw["inputs"]
        inputs = tensors(raw["inputs"], raw["input_types"], raw["input_shapes"])
        self.inputs = [t for t, _ in inputs]
        self.input_shapes = {t[1]: shape for t, shape in inputs}
        self.outputs = [t for t, _ in tensors(raw["outputs"], raw["output_types"], raw["output_shapes"])]
        self.mutated = []  # the inputs that the schema marks `Tensor(a!)`
        arguments = re.sub(r"\*, ", "", raw["op_schema"]).partition(" -> ")[0].split(", ")
        for argument, value, kind in zip(arguments, raw["inputs"], raw["input_types"]):
            if "!)" in argument:
                self.mutated += [s for s, _ in tensors([value], [kind], [[]])]

    def is_view(self):
        inputs = {t[1] for t in self.inputs}
        return not self.mutated and bool(self.outputs) and all(t[1] in inputs for t in self.outputs)

    def enclosing(self, accept):
        node = self
        while node is not None and not accept(node):
            node = node.parent
        return node


def tensors(values, types, shapes):
    """The [tensor, storage, offset, elements, element bytes, device] of each tensor argument, and its
    shape; Python numbers passed as 0-d tensors and undefined tensors are left out."""
    found = []
    for value, kind, shape in zip(values, types, shapes):
        if kind.startswith("GenericList["):
            found += tensors(value, kind[len("GenericList["):-1].split(","), shape)
        elif kind.startswith("Tensor(") and value[1] != 0:
            number = shape == [] and kind.startswith(("Tensor(double", "Tensor(long"))
            if not number:
                found.append((value, tuple(shape) if shape else ()))
    return found


class Storage:
    def __init__(self, size, external=False):
        self.bytes = size
        self.external = external  # it stood before the step: parameter, optimizer state, buffer, input
        self.tensor = None        # its latest contents, once an op has written them
        self.parts = {}           # elements -> contents newer than `tensor`
        self.views = {}           # (offset, number of elements) -> elements, of views seen

    def elements(self, t):
        """The elements that tensor t of this storage shows; None if that is all or unknown."""
        return None if t[3] * t[4] == self.bytes else self.views.get((t[2], t[3]))

    def contents(self, t):
        """What a reader of t reads."""
        wanted = self.elements(t)
        if wanted in self.parts:
            return [self.parts[wanted]]
        newer = [part for where, part in self.parts.items() if wanted is None or where & wanted]
        return newer + ([self.tensor] if self.tensor else [])

    def write(self, t, op):
        """A new output of op: all of the storage, or the elements of t."""
        where = self.elements(t)
        new = Tensor(op, self, self.bytes if where is None else len(where) * t[4])
        if where is None:
            self.tensor, self.parts = new, {}
        else:
            self.parts = {w: p for w, p in self.parts.items() if not w <= where}
            self.parts[where] = new
        op.writes.append(new)


class Tensor:
    """What one op leaves in one storage: an output. A later in-place write makes another one."""

    def __init__(self, producer, storage, size):
        self.in_place = storage.external or storage.tensor is not None
        self.producer, self.storage, self.bytes, self.readers = producer, storage, size, []


def strided(offset, sizes, strides):
    elements = {offset}
    for size, stride in zip(sizes, strides):
        elements = {e + i * stride for e in elements for i in range(size)}
    return frozenset(elements)


class Op:
    def __init__(self, kind, phase, nodes):
        self.kind, self.phase, self.nodes = kind, phase, nodes
        self.reads, self.writes, self.external = [], [], []  # tensors, tensors, external storages
        self.touched, self.results = [], []  # every storage it uses; those of its own result
        self.forward = self.owner = None
        self.differentiates = False  # of a backward op: autograd's number says what
        self.persistent = 0
        self.labels, self.controls = [], []

    def compute_us(self):
        return sum(n.event["dur"] for n in self.nodes)


def load(recording):
    """The recorded calls as a tree, in call order, and the profiler's lines."""
    graph = json.loads(decompress(recording + ".eg.json.zst"))
    lines = [json.loads(l) for l in decompress(recording + ".events.jsonl.zst").splitlines()]
    line_of = {e["corr"]: i for i, e in enumerate(lines) if "corr" in e}
    nodes = {}
    for raw in sorted(graph["nodes"], key=lambda n: n["rf_id"]):
        line = line_of.get(raw["rf_id"])
        if line is None:  # the frames of the process and of the thread
            continue
        assert lines[line]["name"] == raw["name"], "execution graph and events are of two runs"
        node = nodes[raw["id"]] = Node(raw, lines[line], line)
        node.parent = nodes.get(raw["parent"])
        if node.parent:
            node.parent.children.append(node)
    return [n for n in nodes.values() if n.parent is None], lines


def cut(node):
    """The calls in the subtree of `node` that become ops: the outermost ones with one kernel inside,
    or that autograd differentiates as one."""
    inside = [c for child in node.children for c in cut(child)]
    if not node.is_operator or node.name in ALLOCATE or node.is_view():
        return inside
    if not node.outputs and not node.mutated:  # item(): only Python sees the result
        return inside
    kernels = [n for n in inside if n.name not in FILL_OR_COPY]
    below = node.event["seq"] >= 0 and all(n.event["seq"] < 0 for n in node.children)
    return [node] if len(kernels) <= 1 or below or node.name in WHOLE else inside


def phases(roots):
    """[(root, phase)]: forward ends with the last call that counts autograd's sequence on, backward
    with the call of the optimizer."""
    is_frame = lambda n: n.name.startswith(("autograd::", "Optimizer."))
    last = max(i for i, n in enumerate(roots) if n.event["seq"] >= 0 and not is_frame(n))
    return [(n, "update" if n.name.startswith("Optimizer.step") else "forward" if i <= last else "backward")
            for i, n in enumerate(roots)]


def trace_dataflow(roots):
    """The ops with what they read and write. A storage id is an address and gets reused: an output
    in a storage that no input has is a new storage."""
    ops, current = [], {}

    def visit(node, op):
        op = node.op or op
        before = {}  # storage id -> storage, of the inputs
        inputs = {t[1] for t in node.inputs}
        for t in node.outputs:  # before the children: an allocation inside a kernel is no call
            if t[1] not in inputs:
                current[t[1]] = Storage((t[2] + t[3]) * t[4])
        for t in node.inputs:
            storage = current.get(t[1])
            if storage is None:
                storage = current[t[1]] = Storage((t[2] + t[3]) * t[4], external=True)
                storage.shape = node.input_shapes[t[1]]
            before[t[1]] = storage
            read = storage.contents(t)
            if op:
                op.touched.append(storage)
                op.reads += [x for x in read if x.producer is not op and x not in op.reads]
                if storage.external and not read:
                    op.external.append(storage)
            elif node.source is None and read:
                node.source = read[0].producer  # of a view: whose output it shows
        for child in node.children:
            visit(child, op)
        for t in node.mutated:
            storage = before[t[1]]
            if op and not any(x.producer is op for x in storage.contents(t)):
                storage.write(t, op)
        for t in node.outputs:
            storage = current[t[1]]
            if node.name.startswith("resize"):
                storage.bytes = max(storage.bytes, (t[2] + t[3]) * t[4])
            if node.name == "as_strided" and t[3] * t[4] < storage.bytes:
                storage.views[t[2], t[3]] = strided(t[2], *node.arguments[1:3])
            if t[1] not in inputs and storage.tensor is None and op:
                storage.write(t, op)
                op.touched.append(storage)
        if node.op:
            op.results = [current[t[1]] for t in node.outputs]

    for root, phase in phases(roots):
        for node in cut(root):
            node.op = Op(node.name.rstrip("_"), phase, [node])
            ops.append(node.op)
        visit(root, None)
    return ops


def find(joined, x):
    """The one that stands for all that x was joined with."""
    while joined.setdefault(x, x) != x:
        x = joined[x]
    return x


def join_updates(ops, optimizer):
    """One op per parameter in place of the optimizer's chain of small ones on it."""
    joined, chains = {}, defaultdict(list)  # ops that share a storage are one chain
    updates = [o for o in ops if o.phase == "update"]
    for op in updates:
        for storage in op.touched:
            joined[find(joined, storage)] = find(joined, op)
    for op in updates:
        chains[find(joined, op)].append(op)
    whole = []
    for chain in chains.values():
        update = Op(optimizer.lower() + "_update", "update", [n for o in chain for n in o.nodes])
        for op in chain:
            update.reads += [t for t in op.reads if t.producer not in chain and t not in update.reads]
            update.external += [s for s in op.external if s not in update.external]
        if update.reads:  # else it only counts Adam's steps
            whole.append(update)
    return [o for o in ops if o.phase != "update"] + whole


def link_readers(ops):
    """Fills Tensor.readers and drops ops whose results nobody reads. Returns the others."""
    dropped = []
    while True:
        for op in ops:
            for t in op.writes:
                t.readers = []
        for op in ops:
            for t in op.reads:
                t.readers.append(op)
        dead = [o for o in ops if o.phase != "update" and not any(t.readers for t in o.writes)]
        if not dead:
            return ops, dropped
        dropped += dead
        ops = [o for o in ops if o not in dead]


def place_state(ops, meta):
    """Gives each parameter with its optimizer state, and each buffer, to the op that reads it first;
    puts an op before the readers of each input. Returns ops, facts and {parameter: (readers, update)}."""
    readers = defaultdict(list)
    for op in ops:
        for storage in dict.fromkeys(op.external):
            readers[storage].append(op)
    updates = [o for o in ops if o.phase == "update"]
    parameters, inputs, facts = {}, [], Counter()
    for update in updates:
        (weight,) = [s for s in update.external if readers[s][0].phase == "forward"]
        copies, owner = STATE_COPIES[meta["optimizer"]], readers[weight][0]
        assert [s.bytes for s in update.external] == [weight.bytes] * (1 + copies)
        owner.persistent += weight.bytes * (1 + copies)
        facts["parameter_bytes"] += weight.bytes
        parameters[weight] = ([r for r in readers[weight] if r is not update], update)
        update.owner = owner
    for storage, users in readers.items():
        if storage in parameters or users[0].phase == "update":
            continue
        if list(storage.shape) in meta["inputs"] or users[0].kind in ("cross_entropy_loss", "nll_loss_nd"):
            source = Op("input", "forward", [])
            source.writes.append(Tensor(source, storage, storage.bytes))
            source.writes[0].readers = users
            for user in users:
                user.reads.append(source.writes[0])
            inputs.append(source)
        else:
            users[0].persistent += storage.bytes
            facts["buffer_bytes"] += storage.bytes
    return inputs + ops, facts, parameters


def link_forward(ops, roots):
    """Sets Op.forward of each backward op through autograd's sequence number: the number of a
    backward node is the one that the forward call which made it started with, last of all."""
    made_by = {}

    def collect(node):
        if node.event["seq"] >= 0:
            made_by[node.event["seq"]] = node
        for child in node.children:
            collect(child)

    for root, phase in phases(roots):
        if phase == "forward":
            collect(root)
    containing = lambda n: (n.enclosing(lambda m: m.op is not None) or n).op
    for op in reversed([o for o in ops if o.phase == "backward"]):
        frame = op.nodes[0].enclosing(lambda n: n.event["seq"] >= 0 and n.event["fwd_tid"] > 0)
        if frame and not is_accumulation(op):
            call = made_by.get(frame.event["seq"])
            op.forward = call and (containing(call) or call.source)
        op.differentiates = op.forward is not None
        if op.forward is None:  # a sum of gradients, or the first gradient: as its first reader
            reader = next(r for t in op.writes for r in t.readers)
            op.forward = reader.owner or reader.forward


def is_accumulation(op):
    """Autograd adds up the gradients of one tensor outside of any backward function."""
    frame = op.nodes[0].parent
    return op.kind == "add" and frame is not None and frame.name.startswith("autograd::engine")


def name_ops(ops):
    count = Counter()
    for op in ops:
        if op.phase == "forward":
            count[op.kind] += 1
            op.name = f"{op.kind}_{count[op.kind]}"
    for op in ops:
        if op.phase != "forward":
            suffix = "_update" if op.phase == "update" else "_grad"
            if op.phase == "backward" and not op.differentiates:
                suffix += "_" + op.kind
            base = (op.owner or op.forward).name + suffix
            count[base] += 1
            op.name = base if count[base] == 1 else f"{base}_{count[base]}"


def order_updates(ops, parameters):
    """Controls: an update waits for the readers of its parameter that its gradient does not wait for."""
    bit = {op: 1 << i for i, op in enumerate(ops)}
    before = {}  # op -> set of its ancestors, as bits
    for op in ops:
        before[op] = 0
        for t in op.reads:
            before[op] |= before[t.producer] | bit[t.producer]
    for users, update in parameters.values():
        known = before[update]
        for user in sorted(users, key=lambda o: bit[o], reverse=True):
            if not known & bit[user]:
                user.controls.append(update)
                known |= before[user] | bit[user]


def colocate(ops, parameters, mode):
    for users, update in parameters.values():
        for op in [update] + (users[:1] if mode == "updates" else users):
            if users[0].name not in op.labels:
                op.labels.append(users[0].name)
    if mode == "forward":
        for op in ops:
            if op.forward:
                for o in (op, op.forward):
                    if op.forward.name not in o.labels:
                        o.labels.append(op.forward.name)


def temporary_bytes(op, lines):
    """Highest allocation between the op's start and end, less its own outputs."""
    if not op.nodes:
        return 0
    end, live, peak = max(n.event["ts"] + n.event["dur"] for n in op.nodes), 0, 0
    for line in lines[op.nodes[0].line:]:
        if line["ts"] > end:
            break
        live += line.get("bytes", 0)
        peak = max(peak, live)
    return max(0, peak - sum(t.bytes for t in op.writes if t.readers and not t.in_place))


def convert(recording, mode):
    with open(recording + ".meta.json") as f:
        meta = json.load(f)
    roots, lines = load(recording)
    all_ops = trace_dataflow(roots)
    ops, dropped = link_readers(join_updates(all_ops, meta["optimizer"]))
    ops, facts, parameters = place_state(ops, meta)
    link_forward(ops, roots)
    name_ops(ops)
    order_updates(ops, parameters)
    colocate(ops, parameters, mode)
    assert facts["parameter_bytes"] == meta["parameter_bytes"]
    op_lines, edges, controls = [], [], []
    for op in ops:
        entry = {"name": op.name, "kind": op.kind, "phase": op.phase}
        if op.forward:
            entry["forward"] = op.forward.name
        entry.update(compute_us=op.compute_us(), temporary_bytes=temporary_bytes(op, lines),
                     persistent_bytes=op.persistent)
        if op.labels:
            entry["colocation"] = op.labels
        read = sorted((t for t in op.writes if t.readers), key=lambda t: t.storage not in op.results)
        entry["outputs"] = [{"bytes": t.bytes} for t in read]
        op_lines.append(entry)
        for i, t in enumerate(read):
            edges += [{"from": op.name, "output": i, "to": r.name} for r in t.readers]
        controls += [{"from": op.name, "to": u.name} for u in op.controls]
    print(f"{meta['model']}: {len(dropped)} ops dropped that nobody reads,",
          f"{sum(o.compute_us() for o in dropped)} us: {dict(Counter(o.kind for o in dropped))}")
    return {"format": "baechi-trace", "version": 1, "name": meta["model"],
            "source": f"recorded on CPU with PyTorch {meta['torch']}, one training step, {meta['optimizer']};"
                      f" convert_recording.py --colocate {mode}",
            "batch": meta["inputs"][0][0], "x-optimizer": meta["optimizer"],
            "x-parameter_bytes": facts["parameter_bytes"], "x-buffer_bytes": facts["buffer_bytes"],
            "x-state_factor": 1 + STATE_COPIES[meta["optimizer"]],
            "ops": op_lines, "edges": edges, "controls": controls}


def as_text(trace):
    """JSON with one op, edge or control per line."""
    parts = []
    for key, value in trace.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            parts.append(f"{json.dumps(key)}: [\n{rows}\n]" if value else f"{json.dumps(key)}: []")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n".join(parts) + "}\n"


def check(path):
    """Prints the numbers of the trace and what is wrong with it; True if nothing is."""
    with open(path, "rb") as f:
        trace = json.loads(decompress(path) if path.endswith(".zst") else f.read())
    wrong, ops = [], {}
    for op in trace["ops"]:
        if op["name"] in ops:
            wrong.append(f"two ops {op['name']}")
        ops[op["name"]] = op
        numbers = [op.get(k, 0) for k in ("compute_us", "temporary_bytes", "persistent_bytes")]
        if min(numbers + [o["bytes"] for o in op.get("outputs", [])]) < 0:
            wrong.append(f"{op['name']}: negative number")
    for op in ops.values():
        forward = op.get("forward")
        if forward is not None and (forward not in ops or ops[forward]["phase"] != "forward"):
            wrong.append(f"{op['name']}: forward op {forward}?")
        if (forward is None) != (op["phase"] != "backward"):
            wrong.append(f"{op['name']}: phase {op['phase']}, forward {forward}")
    waits, after, used, seen = Counter(), defaultdict(list), set(), set()
    for edge in trace["edges"] + trace["controls"]:
        key = (edge["from"], edge.get("output"), edge["to"])
        if edge["from"] not in ops or edge["to"] not in ops or key in seen:
            wrong.append(f"edge {key}: unknown op, or there twice")
            continue
        seen.add(key)
        if "output" in edge and not 0 <= edge["output"] < len(ops[edge["from"]].get("outputs", [])):
            wrong.append(f"edge {key}: no such output")
        used.add(key[:2])
        waits[edge["to"]] += 1
        after[edge["from"]].append(edge["to"])
    touched = {e[k] for e in trace["edges"] for k in ("from", "to")}
    wrong += [f"{name}: no edge" for name in ops if name not in touched]
    sources = ready = [n for n in ops if not waits[n]]
    finish, done, left = {n: 0 for n in ops}, 0, Counter(waits)
    while ready:
        name, ready = ready[0], ready[1:]
        finish[name] += ops[name]["compute_us"]
        done += 1
        for reader in after[name]:
            finish[reader] = max(finish[reader], finish[name])
            left[reader] -= 1
            if not left[reader]:
                ready.append(reader)
    if done != len(ops):
        wrong.append(f"a cycle among {len(ops) - done} ops")
    total = lambda key: sum(op.get(key, 0) for op in ops.values())
    persistent = total("persistent_bytes")
    if "x-parameter_bytes" in trace:
        if persistent != trace["x-parameter_bytes"] * trace["x-state_factor"] + trace["x-buffer_bytes"]:
            wrong.append("persistent bytes are not parameters x state factor + buffers")
    joined = {}  # labels that share an op
    for op in ops.values():
        for label in op.get("colocation", []):
            joined[find(joined, label)] = find(joined, op["colocation"][0])
    tensors_ = [o["bytes"] for op in ops.values() for o in op.get("outputs", [])]
    by_phase = ", ".join(f"{v} {k}" for k, v in Counter(op["phase"] for op in ops.values()).items())
    print(f"{os.path.basename(path)}: ops {len(ops)} ({by_phase})",
          f"edges {len(trace['edges'])} controls {len(trace['controls'])} tensors {len(tensors_)}",
          f"groups {len({find(joined, l) for l in list(joined)})}"
          f" grouped ops {sum('colocation' in o for o in ops.values())}",
          f"sources {len(sources)} sinks {sum(not after[n] for n in ops)}",
          f"compute_us {total('compute_us')} critical_path_us {max(finish.values())}",
          f"persistent {persistent} temporary max {max(op.get('temporary_bytes', 0) for op in ops.values())}",
          f"output bytes {sum(tensors_)} file bytes {os.path.getsize(path)}", sep="\n  ")
    for line in wrong:
        print(f"  WRONG: {line}")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--check", action="store_true", help="check traces instead of making one")
    parser.add_argument("--colocate", choices=["readers", "updates", "forward"], default="readers")
    args = parser.parse_args()
    if args.check:
        sys.exit(0 if all([check(p) for p in args.paths]) else 3)
    recording, out = args.paths
    text = as_text(convert(recording, args.colocate)).encode()
    packed = subprocess.run(["zstd", "-19", "-cq", f"--stream-size={len(text)}"], input=text, check=True,
                            stdout=subprocess.PIPE).stdout
    with open(out + ".part", "wb") as f:
        f.write(packed)
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main()
