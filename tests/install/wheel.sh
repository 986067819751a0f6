#!/usr/bin/env bash
# wheel.sh WHEEL: installs the wheel into a fresh venv and uses it from another folder, without compiler in the path; checks
# its tag, its types by mypy, and the examples of its texts.
set -euo pipefail
wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python=/usr/bin/python3
[[ $wheel == *cp311* ]] || python=python3
"$python" -m venv venv
venv/bin/pip install --quiet --no-index "$wheel"
# No binary needs a newer glibc than the tag says. Debian 12: expat's symbols; 13: those of g++ 14's libstdc++.
tag=${wheel##*manylinux_2_} tag=${tag%%_*}
needs=$(find venv/lib/*/site-packages/baechi* -type f \( -name '*.so*' -o -name baechi \) -exec readelf -VW {} + |
  grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
[[ ${needs#GLIBC_2.} -le $tag ]] || { echo "tagged glibc 2.$tag, needs $needs"; exit 1; }
echo "tag: glibc 2.$tag; symbols up to $needs"
case $(. /etc/os-release; echo "$ID$VERSION_ID") in debian12) [[ $tag -le 36 ]] ;; debian13) [[ $tag -le 39 ]] ;; esac
mkdir bin elsewhere
cd elsewhere
export PATH=$folder/venv/bin:/bin
! command -v nosuch >/dev/null
python3 - <<'END'
import baechi
graph = baechi.read("traces/data/transformer_small_train.trace.json.zst")
cluster = baechi.Cluster(devices=2, memory="300 MiB", bandwidth="5.7 GB/s", latency="134 us")
step = baechi.simulate(graph, cluster, baechi.place(graph, cluster, placer="m_sct"))
assert step.ok and baechi.data_folder().endswith("baechi_data/share/baechi-sim"), baechi.data_folder()
print(f"import baechi {baechi.__version__}: {graph.num_ops} ops, {step.step_time_us:.0f} us")
END
python3 -m baechi --version
python3 - <<'END'
import doctest
import importlib.util
import baechi
runner = doctest.DocTestRunner()
values = {"baechi": baechi}
if importlib.util.find_spec("torch"):
    import torch
    values["torch"] = torch
functions = [name for name in dir(baechi) if callable(getattr(baechi, name)) and not isinstance(getattr(baechi, name), type)]
for name in ["Graph", "Cluster", *functions]:
    thing = getattr(baechi, name)
    text = (thing.__init__ if isinstance(thing, type) else thing).__doc__
    test = doctest.DocTestParser().get_doctest(text, dict(values), name, None, 0)
    assert test.examples, f"{name}: no example"
    if "torch" in values or "torch." not in text:
        runner.run(test)
runner.summarize()
assert runner.failures == 0
END
site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
# pybind11's classes have a metaclass of their own, and a constructor of any arguments.
[[ ! -x /usr/bin/stubtest || $(/usr/bin/python3 -V) != $(python3 -V) ]] || MYPYPATH=$site PYTHONPATH=$site /usr/bin/stubtest baechi \
  --allowlist <(printf 'baechi\\.[A-Z]\\w+(\\.__init__)?\n')
baechi run slow_link --quiet && echo "baechi run slow_link: $(wc -l <results/slow_link/results.csv) lines"
ldd "$(python3 -c 'import baechi; print(baechi.__file__)')" | grep -c baechi_data/lib
