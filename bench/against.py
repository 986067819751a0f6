"""Two builds' benchmarks side by side, in turn, so that both see the same machine.

    python3 bench/against.py OURS THEIRS [FILTER]

OURS and THEIRS are programs baechi_bench. Each benchmark that both have runs five times in each, one after the
other. Printed are the median CPU times per item, the median of the five ratios and their range, and the ratio of
ours to the pass over the graph's in-edges (topological_pass), whose time is in the last line. A benchmark without
items has its time per run."""
import json
import statistics
import subprocess
import sys

ROUNDS = 5
PASS = "topological_pass/100000"


def names(program, pattern):
    listed = subprocess.run([program, "--benchmark_list_tests", f"--benchmark_filter={pattern}"],
                            capture_output=True, text=True, check=False).stdout
    return [line for line in listed.split("\n") if "/" in line or line.isidentifier()]


def nanoseconds(program, name):
    """CPU time per item, or per run where the benchmark counts no items."""
    out = subprocess.run([program, f"--benchmark_filter=^{name}$", "--benchmark_format=json",
                          "--benchmark_min_time=0.2"], capture_output=True, text=True, check=True).stdout
    run = json.loads(out)["benchmarks"][0]
    unit = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}[run["time_unit"]]
    if "items_per_second" not in run:
        return run["cpu_time"] * unit
    timed = run["real_time"] if "real_time" in name else run["cpu_time"]  # what the items were divided by
    return 1e9 / run["items_per_second"] * run["cpu_time"] / timed


def main():
    ours, theirs = sys.argv[1:3]
    pattern = sys.argv[3] if len(sys.argv) > 3 else "."
    known = set(names(theirs, pattern))
    common = [name for name in names(ours, pattern) if name in known]
    passes = [nanoseconds(ours, PASS) for _ in range(ROUNDS)]
    one_pass = statistics.median(passes)
    print(f"{'benchmark':48} {'ours, ns':>12} {'theirs, ns':>12} {'ours / theirs':>22} {'x pass':>9}")
    for name in common:
        pairs = [(nanoseconds(ours, name), nanoseconds(theirs, name)) for _ in range(ROUNDS)]
        ratios = [a / b for a, b in pairs]
        here, there = (statistics.median(side) for side in zip(*pairs))
        span = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:48} {here:12.1f} {there:12.1f} {span:>22} {here / one_pass:9.1f}", flush=True)
    print(f"{PASS}: {one_pass:.2f} ns ({min(passes):.2f} to {max(passes):.2f})")


if __name__ == "__main__":
    main()
