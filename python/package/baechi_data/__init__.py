"""The program `baechi`, and its data."""
import os
import sys

folder = os.path.dirname(os.path.abspath(__file__))


def main():
    program = os.path.join(folder, "bin", "baechi")
    os.execv(program, ["baechi", *sys.argv[1:]])
