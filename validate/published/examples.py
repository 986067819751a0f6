"""Steps of NVIDIA's example networks: NVIDIA's own tables, Lambda's, HPE's with DDP, FlagPerf's memory."""
import re
from dataclasses import dataclass, replace

from board import Comparison, InputError, Scored, errors_of, facts, number_of
from trainings import options_of, placed

GNMT_WORDS = 27.0
MACHINES = facts("machines.csv")
FRAMEWORKS = {"pytorch": "pytorch", "tensorflow+xla": "xla", "tensorflow": "tensorflow", "mxnet": "mxnet"}
# Device types that nobody has numbers for under the framework.
DEVICES = frozenset(f"{gpu}_{framework}" for gpu in ("v100", "v100_32gb", "t4", "a100_40gb", "a100")
                    for framework in FRAMEWORKS.values()) | {
    f"{machine['gpu']}_pytorch" for machine in MACHINES if machine["gpu"]}


def of_machine(name, column):
    """The first row whose name is in `name` and that has the column; "" without any."""
    return next((m[column] for m in MACHINES if m["name"] in name and m[column]), "")


def nodes_of_text(text):
    """A type of nodes; or number and type of devices, their link, and the type of collectives."""
    words = text.split()
    if len(words) == 1:
        return {"kind": words[0]}
    nodes = {"devices": {"count": words[0], "kind": words[1]}, "link": {"kind": words[2]}}
    return {**nodes, "collectives": {"kind": words[3]}} if len(words) > 3 else nodes


@dataclass
class Example:
    framework: str  # as the file has it: "pytorch-19.07", "tensorflow+xla"
    model: str
    machine: str
    precision: str
    training: bool = False
    nodes: int = 1
    gpus: int = 1
    batch: int = 1       # of a GPU and pass; Transformer: in tokens
    length: int = 0      # of a sample; 0: the file has none
    passes: int = 1      # forward and backward, before an update
    rate: float = 0.0    # training: images, sequences or tokens per second, of all GPUs
    latency: float = 0.0  # inference: seconds
    channels_last: bool = True
    through_host: bool = False  # GPUs send to each other through the host's memory
    line: str = ""

    def base(self):
        return self.framework.split("-")[0]

    def mixed(self):
        return self.precision == "amp"

    def text(self):
        text = f"{self.framework} {self.model} {self.machine} {self.precision}, batch {self.batch}"
        text += f", length {self.length}" if self.length > 0 else ""
        return text + (f", {self.gpus} GPU{'' if self.gpus == 1 else 's'}" if self.training else "")

    def device(self):
        """The device type with the GPU's and the framework's numbers; None if there is none."""
        gpu = of_machine(self.machine, "gpu")
        framework = next((ours for theirs, ours in FRAMEWORKS.items() if theirs in self.base()), None)
        return f"{gpu}_{framework}" if f"{gpu}_{framework}" in DEVICES else None

    def node(self):
        text = (self.through_host and of_machine(self.machine, "nodes_through_host")) or of_machine(self.machine, "nodes")
        return {**nodes_of_text(text), "count": self.nodes} if text else None

    def seconds(self):
        """Measured: a latency, or a step of all passes and the update."""
        if not self.training:
            return self.latency
        units = float(self.gpus * self.batch * self.passes)
        return units * (2.0 * GNMT_WORDS if self.model == "gnmt-v2" else 1.0) / self.rate

    def unknown(self):
        """Why no block may score the row's speed; "" if one may."""
        if generator_of(self) is None:
            return f"no generator makes the model '{self.model}'"
        if self.device() is None:
            return f"no kind of device is '{self.machine}' under '{self.framework}'"
        if self.gpus > 1 and self.node() is None:
            return f"no kind of node is '{self.machine}'"
        if self.training and self.framework == "pytorch" and self.model == "bert-large-pretrain":
            return "its flops are unknown: it probably skips padding"
        if not self.training and self.framework == "mxnet" and not self.mixed():
            return "computed from a printed ratio"
        return ""


def inference_rows(data, comparison):
    rows = []
    for r in data.read("dlexamples/inference.csv", comparison):
        with comparison.row(r):
            rows.append(Example(r["framework"], r["model"], r["gpu"], r["precision"], batch=r.whole("batch", 1),
                                latency=r.number("latency_ms", 1e-6) / 1e3, line=r.line))
    return rows


def training_rows(data, comparison):
    rows = []
    for r in data.read("dlexamples/training.csv", comparison):
        with comparison.row(r):
            rows.append(Example(
                r["framework"], r["model"], r["machine"], r["precision"], True, r.whole("nodes", 1, 1),
                r.whole("gpus", 1), r.whole("batch_per_gpu", 1),
                0 if r["sequence"] == "tokens" else r.whole("sequence", 1, 0), r.whole("accumulation_steps", 1, 1),
                r.number("throughput", 1e-6), line=r.line))
    return rows


CONVOLUTIONAL = {"resnet50": "resnet50", "resnet101": "resnet101", "resnext101-32x4d": "resnext101",
                 "se-resnext101-32x4d": "se_resnext101"}


def generator_of(row):
    """The generator and its options; None if none makes the model. What the READMEs do not say: BERT's pretraining
    predicts 20 words of 128 or 80 of 512, the authors' limits, and fine-tuning without a fused optimizer has one of ten
    kernels; GNMT has sentences of 27 words on both sides, TensorFlow's the ops of TensorFlow 1; Transformer has
    sentences of 32 words. Nothing is padding."""
    if row.model in CONVOLUTIONAL:
        return CONVOLUTIONAL[row.model], {"batch": row.batch}
    if row.model == "gnmt-v2":
        return "gnmt", {"batch": row.batch, "length": 27, "hidden": 1024, "vocabulary": 32320,
                        "level": "tf1" if row.base().startswith("tensorflow") else "module"}
    if row.model == "transformer-big":
        return "transformer", {"batch": max(row.batch // 32, 1), "length": 32, "hidden": 1024, "heads": 16,
                               "inner": 4096, "vocabulary": 33712, "shared_embeddings": True, "optimizer": "adam"}
    if not row.model.startswith(("bert-large", "bert-base")):
        return None
    options = {"size": "base" if row.model.startswith("bert-base") else "large", "batch": row.batch,
               "length": row.length or 384}
    torch, squad = row.base() == "pytorch", row.model.endswith("squad")
    # NVIDIA's fine-tuning fuses its optimizer in PyTorch's mixed precision alone.
    fused = row.base() == "tensorflow+xla" or (torch and row.mixed())
    if torch or (squad and row.training and not fused):
        options["eager"] = True
    if torch:
        options["kernels"] = "torch"
        if fused or not squad:
            options["fused_update"] = True
    options.update({"answers": True} if squad else {"masked": 80 if row.length >= 512 else 20})
    return "bert", options


def step_question(row, extra=None, **more):
    """A pass over a batch, without host and replicas. An update follows it, unless `extra` says none."""
    generator, options = generator_of(row)
    options = {**(extra or {}), **options, "fuse_modules": False, "training": row.training}
    if row.base() in ("mxnet", "tensorflow+xla") and "level" not in options:
        options["fuse_relu"] = True
    question = {"ask": "step", "generator": generator, "options": options_of(placed(generator, options)),
                "device": row.device(), "transforms": []}
    if row.precision != "fp32":
        question["transforms"].append({"precision": {"to": row.precision, "except": "loss"}})
        if row.mixed() and not row.channels_last:
            question["channels_first"] = True
    return {**question, **more}


def replicas(row):
    return {"data_parallel": {"replicas": row.gpus, "nodes": row.nodes, "mode": "after" if row.passes > 1 else "ddp"}}


def answered(answers):
    for answer in answers:
        if "error" in answer:
            raise InputError(answer["error"])
    return answers


def host_times(rows):
    """What the host takes, of each device type: any question of it says so."""
    devices = sorted({row.device() for row in rows})
    answers = answered((yield [{"ask": "step", "generator": "resnet50", "options": {"batch": 1}, "device": device}
                               for device in devices]))
    return {device: {"host": {"launch": f"{round(1e3 * a['host_op_us'])} ns", "step": f"{round(1e3 * a['host_step_us'])} ns"}}
            for device, a in zip(devices, answers)}


def ask(rows):
    """(seconds, flops) of each row: all passes, and the update, on each of its GPUs. The framework's thread launches
    op after op. Gradients of several passes are reduced after the last; of one, as they come."""
    hosts = yield from host_times(rows)
    questions, parts = [], []
    for row in rows:
        one = {"engine": {"queue": "program"}}
        last = step_question(row, **one)
        last["transforms"].append(hosts[row.device()])
        if row.gpus > 1:
            last["transforms"].append(replicas(row))
            last["cluster"] = {"nodes": row.node()}
        parts.append([(len(questions), 1.0)])
        questions.append(last)
        if row.passes > 1:
            earlier = step_question(row, {"optimizer": "none"}, **one)
            earlier["transforms"].append(hosts[row.device()])
            parts[-1].append((len(questions), float(row.passes - 1)))
            questions.append(earlier)
    answers = answered((yield questions))
    return [(sum(times * (answers[i]["step_time_us"] / 1e6) for i, times in part),
             sum(times * answers[i]["flops"] for i, times in part)) for part in parts]


def scored_ms(row, group, seconds, flops):
    return Scored(row.text(), group, 1e3 * row.seconds(), 1e3 * seconds, flops, f"{row.machine} {row.precision}",
                  lines=[row.line], family=of_machine(row.machine, "gpu"))


def by_others():
    """{row: ms} with device numbers that are fitted without its framework's network on its GPU."""
    return {row["row"]: float(row["ms"]) for row in facts("left_out_examples.csv")}


def left_out_of(rows):
    return {"group": "framework, network and GPU", **errors_of(rows)}


def score(data, read, counts, group):
    """Milliseconds; rows whose speed is unknown are skipped."""
    all_of_them = Comparison()
    rows = [row for row in read(data, all_of_them) if counts(row)]
    for row in rows:
        if row.unknown():
            all_of_them.skip(row.line, row.unknown())
    rows = [row for row in rows if not row.unknown()]
    for row, (seconds, flops) in zip(rows, (yield from ask(rows))):
        all_of_them.rows.append(scored_ms(row, group(row), seconds, flops))
    known = by_others()
    if any(row.what in known for row in all_of_them.rows):
        all_of_them.left_out = left_out_of([replace(row, simulated=known.get(row.what, row.simulated))
                                            for row in all_of_them.rows])
    return all_of_them


def by_gpu(row):
    return f"{row.machine} {row.precision}"


def score_inference(data):
    return score(data, inference_rows, lambda row: row.base() == "pytorch", by_gpu)


def score_inference_other_frameworks(data):
    return score(data, inference_rows, lambda row: row.base() != "pytorch", lambda row: row.framework)


def score_training(data):
    return score(data, training_rows, lambda row: row.gpus == 1, lambda row: row.framework)


def score_training_parallel(data):
    """Rows of several GPUs, but for those of bert_data_parallel. Where images are decoded, or sentences are of unequal
    length, more than the sum of gradients slows them; nothing here knows of it."""
    def counts(row):
        return row.gpus > 1 and not (row.base() == "pytorch" and row.model.startswith("bert-large"))
    return score(data, training_rows, counts, lambda row: row.framework)


def score_mixed_precision(data):
    """Per sample, how much faster mixed precision is than the other dtype on the same machine. Of PyTorch's BERT
    pretraining, too: it skips the same padding in both."""
    all_of_them = Comparison()
    rows = training_rows(data, all_of_them)
    pairs = []
    for mixed in rows:
        if not mixed.mixed() or mixed.gpus != 1:
            continue
        plain = next((row for row in rows if not row.mixed() and row.gpus == 1 and all(
            getattr(row, key) == getattr(mixed, key) for key in ("framework", "model", "machine", "length"))), None)
        asked = generator_of(mixed) is not None and mixed.device() is not None
        if asked and plain:
            pairs.append((mixed, plain))
        else:
            all_of_them.skip(mixed.line, "no row of the same step in another number format" if asked else mixed.unknown())
    times, known, left_out = (yield from ask([row for pair in pairs for row in pair])), by_others(), []
    for i, (mixed, plain) in enumerate(pairs):
        def gain(of_mixed, of_plain, mixed=mixed, plain=plain):
            return (of_plain / float(plain.batch * plain.passes)) / (of_mixed / float(mixed.batch * mixed.passes))
        all_of_them.rows.append(Scored(
            f"{mixed.text()}, against {plain.precision}", f"{mixed.framework} against {plain.precision}",
            gain(mixed.seconds(), plain.seconds()), gain(times[2 * i][0], times[2 * i + 1][0]), 1.0,
            f"{mixed.machine} {plain.precision}", lines=[mixed.line, plain.line], family=of_machine(mixed.machine, "gpu")))
        left_out.append(replace(all_of_them.rows[-1], simulated=gain(
            *(known.get(row.text(), 1e3 * times[2 * i + j][0]) for j, row in enumerate((mixed, plain))))))
    if left_out:
        all_of_them.left_out = left_out_of(left_out)
    return all_of_them


# BERT's pretraining on more GPUs, whose step of one is known.
BERT_MACHINES = {"dgx-a100-80g": ("dgx_a100", "a100"), "dgx1-v100-32g": ("dgx1_v100", "v100"),
                 "dgx1-v100-16g": ("dgx1_v100", "v100")}


def score_bert_data_parallel(data):
    """What more GPUs add to the step of one, whose time is taken from the file: the roofline's times are scaled to it,
    so that only the reduction of gradients is predicted."""
    all_of_them = Comparison()
    rows = [row for row in training_rows(data, all_of_them)
            if row.base() == "pytorch" and row.model.startswith("bert-large") and row.machine in BERT_MACHINES]
    pairs = []
    for row in rows:
        if row.gpus == 1:
            continue
        one = next((other for other in rows if other.gpus == 1 and all(
            getattr(other, key) == getattr(row, key)
            for key in ("model", "machine", "framework", "precision", "batch", "length"))), None)
        if one:
            pairs.append((row, one))
        else:
            all_of_them.skip(row.line, "no row of the same step on one GPU")

    def sums_of(row):
        device = {"device": BERT_MACHINES[row.machine][1]}
        return [step_question(row, **device)] + (
            [step_question(row, {"optimizer": "none"}, **device)] if row.passes > 1 else [])

    wanted = {row.line: row for pair in pairs for row in pair}
    questions = [(line, question) for line, row in wanted.items() for question in sums_of(row)]
    sums = {}
    for (line, _), answer in zip(questions, answered((yield [question for _, question in questions]))):
        sums.setdefault(line, []).append(answer["device_times_us"] / 1e3)

    def earlier(row):
        return float(row.passes - 1) * (sums[row.line][1] if row.passes > 1 else 0.0)

    scales = [1e3 * one.seconds() / (earlier(one) + sums[one.line][0]) for _, one in pairs]
    parallel = []
    for (row, _), scale in zip(pairs, scales):
        nodes, device = BERT_MACHINES[row.machine]
        parallel.append(step_question(row, device=device, scale=scale,
                                      cluster={"nodes": {"kind": nodes, "count": row.nodes}}))
        parallel[-1]["transforms"].append(replicas(row))
    for (row, one), scale, answer in zip(pairs, scales, answered((yield parallel))):
        all_of_them.rows.append(Scored(
            row.text(), f"{row.gpus} GPUs", 1e3 * row.seconds(),
            scale * earlier(row) + answer["step_time_us"] / 1e3,
            1e3 * one.seconds() * float(row.passes) / float(one.passes), lines=[row.line, one.line]))
    return all_of_them


# Lambda's PyTorch benchmark, of the same scripts.
LAMBDA_MACHINES = {
    "V100 16GB": "dgx1-v100-16g", "A100 80GB SXM4": "dgx-a100-80g", "A100 40GB SXM4": "dgx-a100-40g",
    "A100 80GB PCIe": "a100-pcie", "H100 80GB SXM5": "h100", "H100_80GB_SXM5": "h100", "H100 80GB PCIe": "h100-pcie",
    "H200_140GB_SXM": "h200", "B200_192GB": "b200", "RTX 3090": "rtx-3090", "RTX 4090": "rtx-4090",
    "RTX 6000 Ada": "rtx-6000-ada", "RTX A6000": "rtx-a6000"}
LAMBDA_NETWORKS = {"resnet50": "resnet50", "bert_base_squad": "bert-base-squad", "bert_large_squad": "bert-large-squad"}
# Samples of SQuAD 1.1 for training, of at most 384 tokens, 128 apart; another tokenizer's 88,524 move no row by more than 0.2 %.
SQUAD_SAMPLES = 88641.0


def ours(names, text, what):
    for theirs, name in names.items():
        if theirs in text:
            return name
    raise InputError(f"no {what} is '{text}'")


def gpus_of(machine):
    """2 of "LambdaOD_8x_Texas_2xH100_80GB_SXM5": the last number before an x. The column of GPUs has 8 there, but the
    throughput is twice that of "1xH100"."""
    numbers = [int(n) for n in re.findall(r"([0-9]+)x", machine) if int(n) > 0]
    if not numbers:
        raise InputError(f"machine '{machine}' names no number of GPUs")
    return numbers[-1]


def trained_share(row):
    """What a GPU trained while the clock ran, over what BERT's throughput includes: 100 of 101 steps or two epochs."""
    return min(101.0, 2.0 * SQUAD_SAMPLES / float(row.batch * row.gpus)) / 100.0


def lambda_rows(data, comparison):
    """Rows of the file's second version name no batch: they have that of the same GPU, network and dtype in the first."""
    rows, batches = [], {}
    for r in data.read("measured/lambda/training.csv", comparison):
        with comparison.row(r):
            row = Example("pytorch", ours(LAMBDA_NETWORKS, r["network"], "generator's network"),
                          ours(LAMBDA_MACHINES, r["machine"], "kind of node"),
                          "amp" if r["precision"] == "fp16" else "fp32", True, gpus=gpus_of(r["machine"]), batch=0,
                          rate=r.number("throughput", 1e-6), channels_last=False, through_host=True, line=r.line)
            if row.precision == "fp32" and "v100" not in row.machine:
                row.precision = "tf32"  # the software allows it
            if r["global_batch"] != "":
                row.batch = r.whole("global_batch", 1)
                if row.batch % row.gpus != 0:
                    raise InputError("the batch is not the same on each GPU")
                row.batch //= row.gpus
                batches.setdefault((row.machine, row.model, row.precision), row.batch)
            rows.append(row)
    known = []
    for row in rows:
        batch = row.batch or batches.get((row.machine, row.model, row.precision), 0)
        if batch == 0:
            comparison.skip(row.line, "nothing says the batch")
            continue
        row = replace(row, batch=batch)
        known.append(replace(row, rate=row.rate * trained_share(row)) if row.model.startswith("bert") else row)
    return known


def score_lambda(data):
    all_of_them = Comparison()
    rows = lambda_rows(data, all_of_them)
    for row, (seconds, flops) in zip(rows, (yield from ask(rows))):
        all_of_them.rows.append(scored_ms(row, by_gpu(row), seconds, flops))
    return all_of_them


def score_ddp(data):
    """What PyTorch's DDP adds to the step of one GPU, whose time without DDP is taken from the file: the roofline's
    times of an H100, the GPU of a GH200, are all scaled to it."""
    all_of_them = Comparison()
    table = data.read("papers/ddp_measured.csv", all_of_them)
    alone, rows, questions = {}, [], []
    for r in table:
        with all_of_them.row(r):
            if r["mode"] == "none":
                alone.setdefault(r["model"], (r.number("seconds_per_step", 1e-9), r.whole("batch_per_gpu", 1), r.line))
    for r in table:
        with all_of_them.row(r):
            if r["mode"] == "none":
                continue
            if r["mode"] != "ddp":
                raise InputError(f"mode '{r['mode']}' is not none or ddp")
            if r["model"] not in alone:
                raise InputError(f"{r['model']} has no row of mode none")
            seconds, batch, line = alone[r["model"]]
            gpus, nodes = r.whole("gpus", 1), r.whole("nodes", 1)
            questions += [{
                "ask": "step", "generator": r["model"], "device": "h100", "sum": f"{round(1e9 * seconds)} ns",
                "options": {"batch": batch, "optimizer": "momentum", "kernels": {"fuse_modules": False}},
                "transforms": [{"data_parallel": {"replicas": gpus, "nodes": nodes, "per_gradient": per_gradient}}],
                "cluster": {"nodes": {"count": nodes, "devices": {"count": 4, "kind": "h100"}, "link": {"kind": "nvlink4"},
                                      "nics": 4, "network": {"bandwidth": "25 GB/s", "latency": "5 us"}}}}
                for per_gradient in ("15 us", "0 us")]
            rows.append(Scored(f"{r['model']}, {gpus} GPUs", r["model"], r.number("seconds_per_step"), work=seconds,
                               lines=[r.line, line], inferred=("15 us for each gradient",)))
    answers = [answer["step_time_us"] / 1e6 for answer in answered((yield questions))]
    for row, row.simulated, without in zip(rows, answers[::2], answers[1::2]):
        row.without = {setting: without for setting in row.inferred}
    all_of_them.rows = rows
    return all_of_them


def score_flagperf(data):
    """The peak of memory of a step on one GPU."""
    all_of_them = Comparison()
    rows, questions = [], []
    for r in data.read("measured/flagperf/training.csv", all_of_them):
        with all_of_them.row(r):
            if r["model"] != "resnet50-pytorch" or r["gpu"] != "A100":
                raise InputError(f"no generator makes '{r['model']}' as it was trained there")
            gib = number_of(r["memory_gib"].split("/")[0])
            if gib is None:
                raise InputError(f"memory_gib '{r['memory_gib']}' is not USED/LIMIT")
            batch = re.search(r"bs=([^,]*)", r["hyperparameters"])
            size = number_of(batch.group(1), int) if batch else None
            if size is None or size < 1:
                raise InputError(f"'{r['hyperparameters']}' says no bs=number: it is the case's default")
            row = Example("pytorch", "resnet50", "dgx-a100-40g", "tf32" if r["precision"] == "fp32" else "amp", True,
                          batch=size)
            rows.append(Scored(f"{row.precision}, batch {size}", measured=gib, work=float(size), lines=[r.line]))
            questions.append(step_question(row, engine={"queue": "program"}))
    for row, answer in zip(rows, answered((yield questions))):
        row.simulated = answer["peak_bytes"] / 2.0**30
    all_of_them.rows = rows
    return all_of_them
