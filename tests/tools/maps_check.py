"""Every device map that `place --export accelerate` writes for the models of map_zoo.py runs, in this PyTorch.

    python3 tests/tools/maps_check.py BAECHI [--thorough]

Prints one line per map that does not run, and for each model how many maps over several devices were written.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.dirname(os.path.abspath(__file__))]
import baechi_torch  # noqa: E402
import baechi_torch_map  # noqa: E402
import map_zoo  # noqa: E402


def place(baechi, trace, placer, devices, memory, path):
    run = subprocess.run([baechi, "place", trace, "--placer", placer, "--devices", str(devices), "--kind", "v100",
                          "--memory", f"{memory} B", "--export", "accelerate", "-o", path], capture_output=True, text=True)
    return run.returncode, run.stderr


def main():
    baechi, thorough = sys.argv[1], "--thorough" in sys.argv
    bad = several = 0
    with tempfile.TemporaryDirectory() as folder:
        trace, path = os.path.join(folder, "t.json"), os.path.join(folder, "map.json")
        for function in map_zoo.ALL:
            document, facts = baechi_torch.trace(function, 1)
            baechi_torch.write(document, trace)
            weights = sum(op["persistent_bytes"] for op in document["ops"])
            largest = max(sum(t["bytes"] for t in op["outputs"]) for op in document["ops"])
            maps, refused, split = 0, 0, 0
            for devices in (2, 3, 4) if thorough else (2, 3):
                for share in (0.6, 0.75, 0.95) if thorough else (0.6, 0.95):
                    for placer in ("auto", "m_sct", "search:evaluations=200") if thorough else ("auto",):
                        if os.path.exists(path):
                            os.remove(path)
                        what = f"{function.__name__}, {devices} devices, {share}, {placer}"
                        code, said = place(baechi, trace, placer, devices, int(share * weights) + 4 * largest, path)
                        if code != 0:
                            print(f"{what}: exit code {code}: {said}")
                            bad += 1
                        elif not os.path.exists(path):
                            refused += 1
                            if thorough:
                                print(f"{what}: {said.strip()}")
                        else:
                            maps += 1
                            with open(path) as file:
                                device_map = json.load(file)
                            split += len(set(device_map.values())) > 1
                            try:
                                baechi_torch_map.run(function, device_map)
                            except Exception as why:  # any, such as a wrong name: all count
                                print(f"{what}: {device_map}: {type(why).__name__}: {why}")
                                bad += 1
            several += split
            print(f"{function.__name__}: {maps} maps, {split} over several devices, {refused} refused")
    print(f"{bad} bad; {several} maps over several devices")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
