"""Forward and backward passes of one layer of BERT, OPT and T5, PyTorch in FP32, on P100, V100 and RTX 3090 (PipeFisher, MLSys 2023)."""
from board import Comparison, InputError, Scored
from examples import answered

# hidden size, heads, inner size, tokens
MODELS = {"bert-base": (768, 12, 3072, 128), "bert-large": (1024, 16, 4096, 128), "opt-125m": (768, 12, 3072, 2048),
          "opt-350m": (1024, 16, 4096, 2048), "t5-base": (768, 12, 3072, 512), "t5-large": (1024, 16, 4096, 512)}
# Fitted to these rows: a share of the peak and of the bandwidth of P100, a share of the peak of RTX 3090, whose products in a benchmark
# of one layer are not at its limit of power.
DEVICES = {
    "p100": {"base": "p100", "launch": "4.28 us", "bandwidth_efficiency": 0.75, "efficiency": {"default": 0.69},
             "half": {"fp32": "77.2 MFLOP"}},
    "v100": "v100_pytorch",
    "rtx3090": {"base": "rtx_3090_pytorch", "products": {"default": {
        "efficiency": 0.9, "bandwidth": 0.8, "overlap": 2.19, "streaming": 0.63, "launch": "2169 ns", "tile": "131 ns",
        "tile_area": "137 ns", "split": "2624 ns", "step": "59 ns", "split_bandwidth": 0.276}}}}
# Device types for a GPU that is left out of the fit: V100's efficiencies under PyTorch; rtx_3090_pytorch.
OTHERS = {"p100": {**DEVICES["p100"], "bandwidth_efficiency": 0.842, "efficiency": {"default": 0.807}}, "rtx3090": "rtx_3090_pytorch"}
BOUND_BY_HOST = 8  # smaller batches


def questions_of(model, device, batch):
    """Three layers and two, with and without a backward pass: a layer is the difference."""
    hidden, heads, inner, tokens = MODELS[model]
    return [{"ask": "step", "generator": "gpt", "device": device,
             "options": {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
                         "intermediate_size": inner, "length": tokens, "batch": batch, "vocab_size": 1000,
                         "optimizer": "none", "training": training, "kernels": "torch"}}
            for layers in (3, 2) for training in (True, False)]


def measured(data, result):
    for model in MODELS:
        for gpu in DEVICES:
            for r in data.read(f"measured/pipefisher/{model}_time_memory_{gpu}.csv", result):
                yield r, model, gpu


def score_pipefisher(data):
    result, rows, questions = Comparison(), [], []
    for r, model, gpu in measured(data, result):
        with result.row(r):
            batch, tokens = r.whole("bs", 1), MODELS[model][3]
            if batch < BOUND_BY_HOST:
                raise InputError(f"batches below {BOUND_BY_HOST} are bound by the host")
            for part in ("forward", "backward"):
                rows.append(Scored(f"{model}, {gpu}, batch {batch}, {part}", f"{gpu}, {part}",
                                   r.number(f"time_{part[0]}", 1e-9), work=float(batch * tokens), alike=f"{model} {gpu} {part}",
                                   family=gpu, lines=[r.line], inferred=(f"shares of {gpu}",) if gpu in OTHERS else ()))
            questions += questions_of(model, DEVICES[gpu], batch)
            questions += questions_of(model, OTHERS[gpu], batch) if gpu in OTHERS else []
    times = iter([answer["step_time_us"] / 1e3 for answer in answered((yield questions))])

    def passes():
        three, three_forward, two, two_forward = (next(times) for _ in range(4))
        return three_forward - two_forward, three - two - (three_forward - two_forward)
    for both in zip(rows[::2], rows[1::2]):
        for row, simulated in zip(both, passes()):
            row.simulated = simulated
        for setting in both[0].inferred:
            for row, simulated in zip(both, passes()):
                row.without[setting] = simulated
    result.rows = rows
    return result


def score_pipefisher_memory(data):
    """MiB of activations: what a layer adds to the peak of a step, less its weights and their gradients."""
    result, questions, layers = Comparison(), [], []
    for r, model, gpu in measured(data, result):
        with result.row(r):
            batch, (hidden, _, inner, tokens) = r.whole("bs", 1), MODELS[model]
            result.rows.append(Scored(f"{model}, {gpu}, batch {batch}", model, r.number("mem_act", 1e-9), work=float(batch * tokens),
                                      alike=model, family=model, lines=[r.line]))
            layers.append(4 * (4 * hidden * hidden + 2 * hidden * inner + 9 * hidden + inner))
            questions += questions_of(model, "v100_32gb_pytorch", batch)[::2]
    peaks = [answer["peak_bytes"] for answer in answered((yield questions))]
    for row, bytes_of_layer, three, two in zip(result.rows, layers, peaks[::2], peaks[1::2]):
        row.simulated = (three - two - 2 * bytes_of_layer) / 2**20
    return result
