# the notebooks run again, each within a minute, without writing them, and python/examples (not part of all)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
python=/usr/bin/python3
bash tools/dev/notebooks.sh check
for example in python/examples/*.py; do
  echo "== $example"
  BAECHI_DATA=$root PYTHONPATH=$root/build/python:$root/tools "$python" "$example" >/dev/null
done
