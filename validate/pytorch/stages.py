"""A recorded step as stages run it: which chunk of layers runs each op, and what crosses between chunks. A trace is the content of its file."""

VIEWS = ("cat", "stack", "select_backward", "slice_backward", "diagonal_backward", "unfold_backward", "as_strided_backward")
COPIES = ("clone", "contiguous", "copy")


def layer_of(op):
    """The number of an op's layer, or None."""
    parts = op.get("module", "").split(".")
    return int(parts[1]) if parts[0] == "layers" and len(parts) > 1 else None


def chunk_of_ops(chunks, trace, again=False):
    """The chunk in which each op runs: that of its layer."""
    where = {layer: chunk for chunk, (_, first, end) in enumerate(chunks) for layer in range(first, end)}
    ops, groups, found = {o["name"]: o for o in trace["ops"]}, {}, {}
    last_chunk = where[max(where)]

    def of(op):
        if layer_of(op) is not None:
            return where[layer_of(op)]
        return of(ops[op["forward"]]) if op.get("forward") in ops else None

    for op in trace["ops"]:
        found[op["name"]] = of(op)
        for label in op.get("colocation", []) if found[op["name"]] is not None else []:
            groups[label] = found[op["name"]]
    for op in trace["ops"]:
        if found[op["name"]] is None:
            found[op["name"]] = next((groups[g] for g in op.get("colocation", []) if g in groups), None)
    for edge in trace["edges"]:  # inputs are where their first reader is, all else with the loss
        op = ops[edge["from"]]
        if found[edge["from"]] is None and op.get("kind") == "input":
            found[edge["from"]] = found[edge["to"]]
    found = {name: last_chunk if chunk is None else chunk for name, chunk in found.items()}
    operands = {}
    for edge in trace["edges"]:
        operands.setdefault(edge["to"], set()).add(edge["from"])
    for op in trace["ops"] if again else ():  # the gradient of what a stage has not used is made there
        if op.get("kind") == "zeros_like" and not op.get("module") and operands.get(op["name"]):
            found[op["name"]] = 1 + max(found[name] for name in operands[op["name"]])
    move_sums(trace, found, operands, again)
    return found


def move_sums(trace, chunk, operands, again):
    """Autograd adds up the gradients of a tensor with several readers, and of its views, where these are: a stage sends their sum. A sum
    beyond those of what the stage has received, of a gradient that it sends, too, is the earlier stage's. Recorded in stages (`again`),
    a stage also copies the sum, so that it lies as the tensor does."""
    ops, moved = {o["name"]: o for o in trace["ops"]}, {}
    forward = [e for e in trace["edges"] if ops[e["to"]]["phase"] == "forward" and chunk[e["from"]] < chunk[e["to"]]]
    came = {(chunk[e["to"]], e["from"], e.get("output", 0)) for e in forward}
    readers = {(chunk[e["to"]], e["from"], e.get("output", 0), e["to"]) for e in forward}
    goes_on = {key for key in came if any((c, *key[1:]) in came for c in range(key[0] + 1, 1 + max(chunk.values())))}
    sums = {c: sum(key[0] == c for key in readers) + sum(key[0] == c for key in goes_on) - sum(key[0] == c for key in came)
            for c in set(chunk.values())}  # fmt: skip
    for op in trace["ops"]:
        name, chunks = op["name"], {chunk[o] for o in operands.get(op["name"], ())}
        if op["phase"] != "backward" or not chunks or min(chunks) <= chunk[name]:
            continue
        c = min(chunks)
        if len(chunks) > 1 and op.get("kind") != "add":
            continue
        of_views = op.get("kind") in VIEWS and any(op.get("forward") == producer for of, producer, _ in came if of == c)
        if of_views or op.get("kind") == "add" or again and op.get("kind") in COPIES:
            moved[name], chunk[name] = chunk[name], c
    added = [name for name in moved if ops[name].get("kind") == "add"]
    for c in sorted(sums, reverse=True):
        sent = {e["from"] for e in trace["edges"] if chunk[e["to"]] < c and ops[e["to"]]["phase"] == "backward"}
        for name in [name for name in reversed(added) if chunk[name] == c]:
            if sum(chunk[other] == c for other in added) > sums[c] and operands[name] & sent:
                chunk[name] = max(moved[name], c - 1)


def of_stages(trace):
    """A step recorded in stages. What a stage copies because it does not lie in one piece goes when the copy has arrived: it is memory
    of the copy alone, and what it was made of stays. Zeros for the gradient of what nobody used are made in the backward pass."""
    copies = {o["name"] for o in trace["ops"] if o.get("module", "").endswith(".sent")}
    of, ops = {e["to"]: e for e in trace["edges"] if e["to"] in copies}, []
    for op in trace["ops"]:
        if op["name"] in of:
            op = {**op, "temporary_bytes": op["outputs"][0]["bytes"], "outputs": []}
        elif op.get("kind") == "zeros_like" and not op.get("module"):
            op = {**op, "phase": "backward"}
        ops.append(op)
    return dict(trace, ops=ops, edges=[{**of[e["from"]], "to": e["to"]} if e["from"] in of else e for e in trace["edges"]])


def sent_once(trace, chunk):
    """A gradient that autograd goes on to add to in place is two outputs of one memory. A stage sends it once; the stage that receives it
    holds it, so that autograd there adds into new memory."""
    ops, edges = {o["name"]: o for o in trace["ops"]}, []
    for e in trace["edges"]:
        outputs = ops[e["from"]]["outputs"]
        if chunk[e["from"]] != chunk[e["to"]] and outputs and outputs[e.get("output", 0)].get("reference"):
            size = outputs[e.get("output", 0)]["bytes"]
            own = [k for k, o in enumerate(outputs) if o["bytes"] == size and not o.get("reference")]
            e = {**e, "output": own[0]} if len(own) == 1 else e
        edges.append(e)
    return dict(trace, edges=edges)


def with_parts(trace, chunk):
    """Of the gradient of a concatenation a stage sends the part that belongs to what it has received: as many bytes as came. Copies the
    part, and lets it go where it is wanted."""
    ops, sizes, parts = {o["name"]: o for o in trace["ops"]}, {}, {}
    for e in trace["edges"]:
        if chunk[e["from"]] != chunk[e["to"]] and ops[e["to"]]["phase"] == "forward":
            sizes.setdefault(e["from"], set()).add(ops[e["from"]]["outputs"][e.get("output", 0)]["bytes"])
    edges, chunk = [], dict(chunk)
    for e in trace["edges"]:
        came = sizes.get(ops[e["to"]].get("forward"), set())
        if chunk[e["from"]] > chunk[e["to"]] and ops[e["to"]]["phase"] == "backward" and len(came) == 1:
            size, key = min(came), (e["from"], e.get("output", 0), e["to"])
            if size < ops[e["from"]]["outputs"][key[1]]["bytes"]:
                parts[key] = part = {"name": f"{e['from']}_part_{len(parts)}", "kind": "clone", "phase": "backward", "compute_us": 0,
                                     "forward": ops[e["from"]].get("forward", e["from"]), "outputs": [{"bytes": size}]}  # fmt: skip
                chunk[part["name"]] = chunk[e["from"]]
                edges += [{**e, "to": part["name"]}, {"from": part["name"], "to": e["to"]}]
                continue
        edges.append(e)
    behind = {}
    for (name, _, _), part in parts.items():
        behind.setdefault(name, []).append(part)
    return dict(trace, edges=edges, ops=[o for op in trace["ops"] for o in [op, *behind.get(op["name"], [])]]), chunk


def with_gradients_of_inputs(trace, chunk, floats):
    """A later stage that is given one of the model's inputs, whose bytes are in `floats`, sends its gradient back, which the whole model
    does not make. The first stage lets it go when its backward pass has ended."""
    ops, order, chunk, edges, behind = {o["name"]: o for o in trace["ops"]}, trace["ops"], dict(chunk), list(trace["edges"]), {}
    for op in order:
        readers = {e["to"] for e in trace["edges"] if e["from"] == op["name"] and ops[e["to"]]["phase"] == "forward"}
        own, later = chunk[op["name"]], sorted({chunk[r] for r in readers} - {chunk[op["name"]]}, reverse=True)
        if op.get("kind") != "input" or op.get("persistent_bytes") or op["outputs"][0]["bytes"] not in floats or not later:
            continue
        before = None
        for c in [*later, own]:
            backward = [o["name"] for o in order if o["phase"] == "backward" and chunk[o["name"]] == c]
            makes = [name for name in backward if ops[name].get("forward") in readers and c != own] or backward
            if not makes:
                break
            made = {"name": f"{op['name']}_gradient_{c}", "kind": "gradient_of_input", "phase": "backward", "compute_us": 0,
                    "outputs": [] if c == own else [{"bytes": op["outputs"][0]["bytes"]}]}  # fmt: skip
            behind.setdefault(makes[-1], []).append(made)
            edges += [{"from": before, "to": made["name"]}] if before else []
            before, chunk[made["name"]] = made["name"], c
    return dict(trace, edges=edges, ops=[o for op in order for o in [op, *behind.get(op["name"], [])]]), chunk


def passed_on(trace, chunk):
    """A stage passes on what is for a later one, and back the gradient: it receives and sends it, and computes nothing. Autograd copies
    the gradient, because its caller holds what was received."""
    ops, edges, chunk, passing = {o["name"]: o for o in trace["ops"]}, [], dict(chunk), {}
    for e in trace["edges"]:
        a, b, op = chunk[e["from"]], chunk[e["to"]], ops[e["from"]]
        name, output, forth = e["from"], e.get("output", 0), 1 if b > a else -1
        if op["phase"] == "update" or ops[e["to"]]["phase"] == "update" or not op["outputs"] or (forth > 0) == (op["phase"] == "backward"):
            edges.append(e)
            continue
        for c in range(a + forth, b, forth):
            key = e["from"], e.get("output", 0), c
            if key not in passing:
                passing[key] = {"name": f"{e['from']}_passed_{key[1]}_{c}", "kind": "passed", "phase": op["phase"], "compute_us": 0,
                                "outputs": [{"bytes": op["outputs"][key[1]]["bytes"], "reference": forth > 0}]}  # fmt: skip
                chunk[passing[key]["name"]] = c
                edges.append({"from": name, "output": output, "to": passing[key]["name"]})
            name, output = passing[key]["name"], 0
        edges.append({**e, "from": name, "output": output})
    # A leaf's gradient is copied when it is complete: before the last op of the stage that reads it as well, where one does; else at once
    # where it comes as it goes; else behind all else.
    forth = {(c, op["outputs"][0]["bytes"]) for (_, _, c), op in passing.items() if op["phase"] == "forward"}
    order, readers, behind, at = {o["name"]: i for i, o in enumerate(trace["ops"])}, {}, {}, {}
    for e in edges:
        readers.setdefault(e["from"], []).append(order.get(e["to"], len(order)))
    for (name, output, c), op in passing.items():
        place = order[name]
        if op["phase"] == "backward":
            here = [order[e["to"]] for e in trace["edges"] if (e["from"], e.get("output", 0), chunk[e["to"]]) == (name, output, c)]
            if here:
                place = max(here) - 1
            elif (c, op["outputs"][0]["bytes"]) not in forth:
                done = [o["name"] for o in trace["ops"][: min(readers[op["name"]])] if chunk[o["name"]] == c and o["phase"] == "backward"]
                place = max(place, order[done[-1]] if done else 0)
        at[name, output] = place = max(place, at.get((name, output), 0))
        behind.setdefault(trace["ops"][place]["name"], []).append(op)
    return dict(trace, edges=edges, ops=[o for op in trace["ops"] for o in [op, *behind.get(op["name"], [])]]), chunk


def with_buffers(trace, inputs):
    """What comes from outside the step and is none of the model's `inputs`, by its bytes, is a buffer: it stays where it is."""
    left, ops = list(inputs), []
    for op in trace["ops"]:
        if op.get("kind") == "input":
            size = op["outputs"][0]["bytes"]
            if size in left:
                left.remove(size)
            else:
                op = {**op, "persistent_bytes": size, "outputs": [{"bytes": size, "reference": True}]}
        ops.append(op)
    return dict(trace, ops=ops)


def with_unused(trace, layers, more=0):
    """Bytes of weights and buffers of `layers` that no op of the step holds stay with the first op from the layer on, or of the last layer
    that has any; `more` with the first of all."""
    index = {o["name"]: layer_of(o) for o in trace["ops"]}
    first = {}
    for e in trace["edges"]:
        first.setdefault(e["from"], index[e["to"]])
    held, extra = {}, {}
    for op in trace["ops"]:
        at = index[op["name"]] if index[op["name"]] is not None else first.get(op["name"])
        held[at] = held.get(at, 0) + op.get("persistent_bytes", 0)
    for layer, size in enumerate(layers):
        if size > held.get(layer, 0):
            known = {name: i for name, i in index.items() if i is not None}
            name = next((n for n, i in known.items() if i >= layer), max(known, key=known.get))
            extra[name] = extra.get(name, 0) + size - held.get(layer, 0)
    extra[trace["ops"][0]["name"]] = extra.get(trace["ops"][0]["name"], 0) + more
    return dict(trace, ops=[{**o, "persistent_bytes": o.get("persistent_bytes", 0) + extra.get(o["name"], 0)} for o in trace["ops"]])


def waiting(trace, micro_batches):
    """Of each gradient of a weight (op, output) that waits: the op that adds it to the others, and behind which op. It waits until the function
    of autograd that makes it has ended, or for its copy, if it lies in memory otherwise than its weight; the first of `micro_batches` alone
    makes a copy."""
    order, ops, readers, found = trace["ops"], {o["name"]: o for o in trace["ops"]}, {}, {}
    for e in trace["edges"]:
        readers.setdefault((e["from"], e.get("output", 0)), set()).add(e["to"])

    index = {o["name"]: i for i, o in enumerate(order)}

    def others(name, k):
        """Where an update reads the gradient: which other ops do."""
        found = readers.get((name, k), ())
        rest = [r for r in found if ops[r]["phase"] != "update"]
        return rest if len(rest) < len(found) and not ops[name]["outputs"][k].get("reference") else None

    for i, op in enumerate(order):
        if op["phase"] != "backward" or not op.get("forward"):
            continue
        last = next((j for j in range(i, len(order) - 1) if order[j + 1].get("forward") != op["forward"]), len(order) - 1)
        for k, out in enumerate(op["outputs"]):
            copies = [ops[r] for r in readers.get((op["name"], k), ())]
            until = others(op["name"], k)
            end = max([last, *(index[r] for r in until or ())])
            if until is not None and end > i and op["kind"] != "copy":
                added = {**op, "name": f"{op['name']}_added_{k}", "kind": "added", "compute_us": 0, "temporary_bytes": 0, "persistent_bytes": 0}
                found[op["name"], k] = {**added, "outputs": [out]}, order[end]["name"]
            elif len(copies) == 1 and copies[0]["kind"] == "copy" and others(copies[0]["name"], 0) == []:
                found[op["name"], k] = {**copies[0], "compute_us": copies[0]["compute_us"] / micro_batches}, copies[0]["name"]
    return found


def added_up(trace, micro_batches):
    """Gradients of a weight are added up when they have waited: until then both the new one and the sum are there. What waits goes right
    before it is added, when an op `given` has read it."""
    waits, behind, edges = waiting(trace, micro_batches), {}, []
    given = {key: {**added, "name": f"{added['name']}_given", "kind": "given", "compute_us": 0, "temporary_bytes": 0, "outputs": []}
             for key, (added, _) in waits.items()}  # fmt: skip
    for key, (added, last) in waits.items():
        behind.setdefault(last, []).extend([given[key], added])
        edges.append({"from": key[0], "output": key[1], "to": given[key]["name"]})
    copies, phase = {added["name"] for added, _ in waits.values()}, {o["name"]: o["phase"] for o in trace["ops"]}
    for e in trace["edges"]:
        key = e["from"], e.get("output", 0)
        if key not in waits or e["to"] not in copies and phase[e["to"]] != "update":
            edges.append(e)
        elif e["to"] not in copies:
            edges.append({"from": waits[key][0]["name"], "to": e["to"]})
    ops = [o for op in trace["ops"] for o in ([] if op["name"] in copies else [op]) + behind.get(op["name"], [])]
    controls = [{"from": given[key]["name"], "to": added["name"]} for key, (added, _) in waits.items()]
    return dict(trace, ops=ops, edges=edges, controls=trace.get("controls", []) + controls)


def with_inputs(trace, placed):
    """The runner has its inputs until the backward pass has ended: its last op on a device reads them, too."""
    last = {placed[o["name"]]: o["name"] for o in trace["ops"] if o["phase"] == "backward"}
    inputs = [o["name"] for o in trace["ops"]
              if o.get("kind") == "input" and not o.get("persistent_bytes") and placed[o["name"]] in last]  # fmt: skip
    known = {(e["from"], e["to"]) for e in trace["edges"]}
    more = [(name, last[placed[name]]) for name in inputs]
    return dict(trace, edges=trace["edges"] + [{"from": a, "to": b} for a, b in more if (a, b) not in known])


def tensors_at_boundary(trace, chunk):
    """How many tensors a stage sends or receives in a pass, in the mean."""
    sent = {(e["from"], e.get("output", 0), chunk[e["to"]]) for e in trace["edges"] if chunk[e["from"]] != chunk[e["to"]]}
    return max(1, len(sent) / max(1, 2 * max(chunk.values())))
