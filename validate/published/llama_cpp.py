"""Llama 3 8B and 70B under llama.cpp on 1-8 GPUs: speeds, buffers, and what ran out of memory (llama_bench)."""
import os
from dataclasses import replace

from board import HERE, Comparison, InputError, Scored, Table, errors_of, facts, mean
from examples import answered

SPEED, MEMORY, VERDICTS = (f"measured/llama_bench/{name}.csv" for name in ("speed", "memory", "verdicts"))
PASS = 512  # tokens of a micro-batch: n_ubatch
# Micro-batches at a time: their inputs have so many copies (GGML_SCHED_MAX_COPIES).
IN_FLIGHT = 4
MIB = 2.0**20
PEER_GB_S = 20.0
RESERVE = 640 * MIB  # CUDA context and kernels, cuBLAS' workspace, fragmentation
# On several GPUs a launch takes so much more; and what a copy of a token's activations between GPUs takes.
LAUNCH_OF_SEVERAL_US, HOP_US = 0.91, 105
# configuration, layers, hidden size, heads, words, billions of numbers in products
SHAPES = {"8B": ("3-8b", 32, 4096, 32, 128256, 7.5), "70B": ("3-70b", 80, 8192, 64, 128256, 69.5)}


def gpus():
    return {row["gpu"]: row for row in facts("llama_cpp_gpus.csv")}


def model_of(text):
    """("8B", "f16") of "llama 8B F16", "8B Q4_K_M" and "8B-v3/ggml-model-Q4_K_M.gguf"."""
    size = "70B" if "70B" in text else "8B" if "8B" in text else None
    weights = "f16" if "F16" in text else "q4_k_m" if "Q4_K" in text else None
    if size is None or weights is None:
        raise InputError(f"model '{text}' is not Llama 3 8B or 70B in F16 or Q4_K_M")
    return size, weights


def starts_of(layers, count):
    """The first layers of the other GPUs, as llama.cpp divides them: with the output as one layer more, a layer is on the first
    GPU whose share is above its place."""
    return [f"layer_{-(-d * (layers + 1) // count)}" for d in range(1, count)]


def question_of(size, weights, gpu, count, options, numbers=None, link=None, **more):
    """`numbers`: of the GPU, in place of its kind's."""
    name, layers, *_ = SHAPES[size]
    known = gpus()
    if gpu not in known:
        raise InputError(f"gpu '{gpu}' is none of {', '.join(known)}")
    kind, device = known[gpu]["kind"], dict(numbers or {})
    if count > 1:
        device["launch"] = float(device.get("launch", known[gpu]["launch_us"])) + LAUNCH_OF_SEVERAL_US
    if "launch" in device:
        device["launch"] = f"{device['launch']:.2f} us"
    return {"ask": "step", "generator": "llama", "device": {"base": kind, **device} if device else kind,
            "starts": starts_of(layers, count), "engine": {"overlap": False, "queue": "program"},
            "options": {"config": name, "weights": weights, "fused_attention": False, **options},
            "cluster": {"devices": {"count": count, "kind": kind},
                        "link": link or {"bandwidth": "6 GB/s", "latency": f"{HOP_US} us"}}, **more}


def of_others(gpu):
    """The means of the numbers of the other fitted GPUs of its architecture. Shares are of the bandwidth that ECC leaves."""
    known = gpus()
    own, fitted = known.get(gpu, {}), [row for name, row in known.items() if row["fp16"] and name != gpu]
    others = [row for row in fitted if row["architecture"] == own.get("architecture")] or fitted
    fp16, q4 = (mean([float(row[key]) / float(row["ecc"] or 1) for row in others]) * float(own.get("ecc") or 1)
                for key in ("fp16", "q4"))
    core, launch = (mean([float(row[key]) for row in others]) for key in ("core", "launch_us"))
    return {"gemv": {"fp16": fp16, "q4": q4}, "attention": {"decode": core}, "launch": launch}


def speeds(rows, test, result):
    for r in rows:
        with result.row(r):
            if r["test"] == test:
                yield r, (*model_of(r["model"]), r["gpu"], r.whole("gpus", 1)), r.whole("tokens", 1), \
                    r.number("tokens_per_s", 1e-9)


def score_llama_bench_decode(data):
    """Rates begin with an empty cache: the mean of the first and the last token, as times grow with the cache."""
    result = Comparison()
    rows, questions, known = [], [], gpus()
    for r, (size, weights, gpu, count), tokens, rate in speeds(data.read(SPEED, result), "tg", result):
        with result.row(r):
            goal = "nine GPUs" if known.get(gpu, {}).get("fp16") else "other GPUs"
            for numbers in (None, of_others(gpu)):
                for context in (0, tokens - 1):
                    questions.append(question_of(size, weights, gpu, count, {"pass": "decode", "context": context}, numbers))
            rows.append(Scored(f"{size} {weights}, {count} {gpu}, {tokens} tokens", f"{goal}, {weights}", 1e6 / rate,
                               work=1.0, alike=gpu, family=f"{count} {gpu}", lines=[r.line]))
    times = [answer["step_time_us"] for answer in answered((yield questions))]
    for i, row in enumerate(rows):
        row.simulated = (times[4 * i] + times[4 * i + 1]) / 2.0
    left = errors_of([replace(row, simulated=(times[4 * i + 2] + times[4 * i + 3]) / 2.0) for i, row in enumerate(rows)
                      if row.group.startswith("nine")])
    result.left_out = {"group": "GPU of nine", "free": 4, **{key: left[key] for key in ("mean", "median", "rows")}}
    result.rows = rows
    return result


def score_llama_bench_prefill(data):
    """Tokens/s of prompts on several GPUs, over those of 512 tokens, which no pipeline divides. Given are the machine's row of 512
    tokens, or one GPU's, and how much slower later micro-batches are on one GPU: by its shortest and longest prompt."""
    result = Comparison()
    all_rows = list(speeds(data.read(SPEED, result), "pp", result))
    with open(os.path.join(HERE, "data", SPEED), encoding="utf-8", newline="") as shipped:
        rates = {(*of, tokens): rate for _, of, tokens, rate in speeds(Table(shipped.read(), SPEED).rows, "pp", Comparison())}
    rates.update({(*of, tokens): rate for _, of, tokens, rate in all_rows})
    known, rows, questions = gpus(), [], []

    def slower(size, weights, gpu):
        """The part of the first micro-batch's time that each one takes more than the one before it."""
        other = "q4_k_m" if weights == "f16" else "f16"
        for of, w in ((size, weights), (size, other), ("8B", weights), ("8B", other)):
            prompts = sorted(t for s, v, g, count, t in rates if (s, v, g, count) == (of, w, gpu, 1) and t >= PASS)
            if len(prompts) < 2:
                continue
            (m, a), (n, b) = ((t // PASS, t / rates[of, w, gpu, 1, t]) for t in (prompts[0], prompts[-1]))
            # a = m first + more m (m - 1) / 2, and b likewise.
            more = (b / n - a / m) / ((n - m) / 2)
            shape, own = SHAPES[of], SHAPES[size]
            return max(0.0, more / (a / m - more * (m - 1) / 2)) * (own[1] * own[3] / own[5]) / (shape[1] * shape[3] / shape[5])
        raise InputError(f"no two prompts on one {gpu}, of which later micro-batches would be known")

    for r, (size, weights, gpu, count), tokens, rate in all_rows:
        with result.row(r):
            if count == 1 or tokens <= PASS:
                raise InputError("one GPU, or one micro-batch: given, not predicted")
            if (size, weights) == ("70B", "q4_k_m") and count == 4 or (size, gpu) == ("70B", "A40") or \
                    weights == "f16" and (gpu, count) in (("L40S", 4), ("5000_Ada", 4), ("A100_SXM", 4)):
                raise InputError("slower by far than the source's other rows of this machine")
            if gpu not in known:
                raise InputError(f"gpu '{gpu}' is none of {', '.join(known)}")
            own = rates.get((size, weights, gpu, count, PASS))
            alone = rates.get((size, weights, gpu, 1, PASS))
            if own is None and alone is None:
                raise InputError("no row of 512 tokens on this machine or on one GPU")
            more, passes = slower(size, weights, gpu), -(-tokens // PASS)
            # Also as if GeForce had peer access: what is left out decides with the rows of other machines.
            speeds_of = dict.fromkeys((float(known[gpu]["hop_gb_s"]), PEER_GB_S))
            for speed in speeds_of:
                hop_us = 4 * PASS * SHAPES[size][2] / (1e3 * speed)
                first = 1e6 * PASS / own - (count - 1) * hop_us if own else 1e6 * PASS / alone
                questions.append(question_of(
                    size, weights, gpu, count, {"pass": "prefill"}, prompt=tokens, pass_tokens=PASS, in_flight=IN_FLIGHT,
                    sums=[f"{first * (1 + more * i):.3f} us" for i in range(passes)],
                    # Activations cross in 32 bits.
                    link={"bandwidth": f"{speed / 2:g} GB/s", "latency": "0 us"}))
            base = own or alone
            rows.append(Scored(f"{size} {weights}, {count} {gpu}, {tokens} tokens", known[gpu]["class"], rate / base,
                               tokens / base, work=count * passes / (count + passes - 1), alike="all",
                               family=f"{count} {gpu}", lines=[r.line], inferred=("GeForce through the host",) * (len(speeds_of) - 1)))
    answers = iter(answered((yield questions)))
    for row in rows:
        rate, row.simulated = row.simulated, row.simulated * 1e6 / next(answers)["step_time_us"]
        row.without = {setting: rate * 1e6 / next(answers)["step_time_us"] for setting in row.inferred}
    result.rows = rows
    return result


def score_llama_bench_prompts(data):
    """Seconds of prompts on one GPU."""
    result = Comparison()
    rows, questions = [], []
    for r, (size, weights, gpu, count), tokens, rate in speeds(data.read(SPEED, result), "pp", result):
        with result.row(r):
            if count > 1:
                raise InputError("several GPUs: llama_bench_prefill")
            if (size, gpu) == ("70B", "A40") or (weights, gpu) == ("f16", "A100_SXM") or (weights, gpu) == ("f16", "L40S"):
                raise InputError("slower by far than the source's other rows of this machine")
            questions.append(question_of(size, weights, gpu, 1, {"pass": "prefill"}, prompt=tokens, pass_tokens=PASS))
            rows.append(Scored(f"{size} {weights}, {gpu}, {tokens} tokens", f"{size}, {weights}", tokens / rate, work=float(tokens),
                               alike=f"{gpu} {size}", family=gpu, lines=[r.line]))
    for row, answer in zip(rows, answered((yield questions))):
        row.simulated = answer["step_time_us"] / 1e6
    result.rows = rows
    return result


def buffer_bytes(size, context, count, running=False):
    """llama.cpp's compute buffer of a GPU without flash attention: scores, masks and inputs, or the logits of a micro-batch."""
    _, _, hidden, heads, words, _ = SHAPES[size]
    scores = 4 * PASS * context * (heads + (1 if count == 1 else 4)) + (16 if count == 1 else 32) * PASS * hidden
    return max(scores, 4 * PASS * (words + 2 * hidden)) + (2 * PASS * context * heads if running else 0)


def held_question(size, weights, count, context):
    return question_of(size, weights, "3090", count, {"pass": "decode", "cache": max(context, 1)})


def held(answer, size, weights):
    """Bytes of weights and of cache on each GPU; the table of embeddings is the host's."""
    _, _, hidden, _, words, _ = SHAPES[size]
    gpus = [[w, cache] for w, cache, _ in answer["memory"]]
    gpus[0][0] -= round(words * hidden * {"f16": 2, "q4_k_m": 144 / 256}[weights])
    return gpus


def score_llama_bench_buffers(data):
    """MiB of weights, cache and compute buffer of each GPU."""
    result = Comparison()
    rows, questions = [], []
    for r in data.read(MEMORY, result):
        with result.row(r):
            size, weights = model_of(r["model"])
            if not r["device"].startswith("CUDA") or r["device"] == "CUDA_Host":
                raise InputError("memory of the host")
            count, context, device = r.whole("gpus", 1), r.whole("n_ctx", 1), int(r["device"][4:])
            if r["what"] not in ("weights", "KV", "compute"):
                raise InputError(f"what '{r['what']}' is not weights, KV or compute")
            if r.whole("n_ubatch", 1) != PASS:
                raise InputError(f"micro-batches of {r['n_ubatch']} tokens, not {PASS}")
            questions.append(held_question(size, weights, count, context))
            rows.append((Scored(f"{r['what']}, GPU {device} of {count} {r['gpu']}", r["what"], r.number("mib", 1e-9),
                                work=1.0, alike=r["what"], family=str(count), lines=[r.line]), size, weights, device,
                         buffer_bytes(size, context, count)))
    for (row, size, weights, device, buffer), answer in zip(rows, answered((yield questions))):
        own, cache = held(answer, size, weights)[device]
        row.simulated = {"weights": own, "KV": cache, "compute": buffer}[row.group] / MIB
    result.rows = [row for row, *_ in rows]
    return result


def score_llama_bench_verdicts(data):
    """Whether it is said to run what ran, and no more: 1 is the right answer. A GPU has what nvidia-smi prints less a reserve."""
    result = Comparison()
    table = data.read(VERDICTS, result)
    sizes = {}
    for r in table:
        if r["gib"]:
            sizes[r["machine"]] = r.number("gib")
    rows, questions = [], []
    for r in table:
        with result.row(r):
            size, weights = model_of(r["model"])
            count, tokens = r.whole("gpus", 1), r["tokens"]
            context = int(tokens.lstrip("pgt"))
            if r["machine"] not in sizes:
                raise InputError(f"gib of machine '{r['machine']}' is in no row")
            questions.append(held_question(size, weights, count, context))
            rows.append((Scored(f"{size} {weights}, {r['machine']}, {tokens}", "ran" if r["ran"] == "1" else "ran out", 1.0,
                                family=r["machine"], lines=[r.line]), size, weights, r["ran"] == "1",
                         sizes[r["machine"]] * 2.0**30, buffer_bytes(size, context, count, not tokens.startswith("tg"))))
    spare = []  # without a reserve
    for (row, size, weights, ran, memory, buffer), answer in zip(rows, answered((yield questions))):
        spare.append((row, ran, memory - buffer - max(own + cache for own, cache in held(answer, size, weights))))
        fits = spare[-1][2] >= RESERVE
        row.simulated = 1.0 if fits == ran else 0.0
        row.refused = ran and not fits
    wrong = []
    for row, ran, own in spare:
        # By the other machines: halfway between the most that was spare where it ran out and the least where it ran.
        others = [[s for r, ok, s in spare if r.family != row.family and ok == which] for which in (False, True)]
        reserve = (max(others[0], default=RESERVE) + min(others[1], default=RESERVE)) / 2
        wrong.append(replace(row, simulated=1.0 if (own >= reserve) == ran else 0.0))
    result.left_out = {"group": "machine", "free": 1, **errors_of(wrong)} if wrong else None
    result.rows = [row for row, *_ in rows]
    return result
