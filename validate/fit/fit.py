#!/usr/bin/env python3
"""The numbers of the models, fitted to published measurements. `baechi validate fit WHAT` runs this file."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.append(os.path.join(HERE, "..", "published"))

import board  # noqa: E402

FITS = {"collectives": "latencies and bandwidths of all_reduce inside a node: vtrain/allreduce",
        "collective_tables": "times of collectives by number of ranks and size: measured/aiconfigurator/nccl.csv",
        "megatron": "what A100s reach in training GPTs: vtrain/measured_*.csv",
        "network": "what DGX A100s reach between nodes: vtrain/measured_multi_node.csv",
        "devices": "device types under four frameworks: dlexamples/",
        "kernels": "GEMMs, attention and memory-bound kernels: measured/aiconfigurator, measured/vidur"}


def write_left_out(name, lines, data):
    """What the board scores rows with that had no part in a fit; of our own measurements only."""
    if os.path.realpath(data.folder) == os.path.realpath(os.path.join(HERE, "..", "published", "data")):
        with open(os.path.join(HERE, "..", "published", name), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)


def run(what, data, program):
    if what == "kernels":
        import kernel_numbers
        write_left_out("left_out_kernels.csv", kernel_numbers.left_out(data, ROOT), data)
        return kernel_numbers.fit(data, ROOT)
    if what == "collective_tables":
        import collective_tables
        write_left_out("left_out_collectives.csv", collective_tables.left_out(data), data)
        return collective_tables.fit(data)
    if what == "devices":
        import device_numbers
        text, left_out = device_numbers.fit(data, program, ROOT)
        write_left_out("left_out_examples.csv", left_out, data)
        return text
    import vtrain_numbers
    if what == "network":
        return vtrain_numbers.fit_network(data, program)
    if what == "megatron":
        write_left_out("left_out_vtrain.csv", vtrain_numbers.left_out(data, program), data)
        return vtrain_numbers.fit_megatron(data, program)
    # Rings over wires of a DGX-1: one between its first two GPUs, six over all eight.
    return vtrain_numbers.fit_collectives(data, {2: 1.0, 8: 6.0})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(FITS), help="; ".join(f"{name}: {text}" for name, text in FITS.items()))
    parser.add_argument("--program", default="baechi")
    parser.add_argument("--data", default=os.path.join(HERE, "..", "published", "data"))
    parser.add_argument("-o", help="the file to write")
    flags = parser.parse_args()
    try:
        import scipy  # noqa: F401
    except ImportError:
        print("validate fit needs scipy: apt install python3-scipy, or pip install scipy", file=sys.stderr)
        return 2
    try:
        data = board.Data(flags.data, board.Program(flags.program))
        text = run(flags.what, data, data.program)
    except board.InputError as error:
        print(error, file=sys.stderr)
        return 2
    if flags.o:
        with open(flags.o, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
