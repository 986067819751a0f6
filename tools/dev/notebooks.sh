# runs each of python/notebooks in an empty folder and writes what it prints and draws
# check: writes nothing; fails where one shows other text than before, or takes over a minute of processor time
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install notebooks
python=/usr/bin/python3
build_python
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TIMEFORMAT='%U %S'
for notebook in "$root"/python/notebooks/*.ipynb; do
  name=$(basename "$notebook")
  mkdir "$work/${name%.ipynb}"
  cp "$notebook" "$work/${name%.ipynb}/"
  { time (cd "$work/${name%.ipynb}" && BAECHI_DATA=$root PYTHONPATH=$root/build/python:$root/tools \
    PATH=$root/build/python:$PATH MPLBACKEND= NO_COLOR=1 PYTHONWARNINGS=ignore PYDEVD_DISABLE_FILE_VALIDATION=1 \
    "$python" -m nbconvert --to notebook --execute --inplace --log-level WARN --ExecutePreprocessor.timeout=300 "$name" \
    2>"$work/errors"); } 2>"$work/took" ||
    { cat "$work/errors"; exit 1; }
  took=$(awk '{ print int($1 + $2) }' "$work/took")
  echo "== $name: $took s of processor time"
  if [[ ${1:-} != check ]]; then
    "$python" python/notebooks/plain.py "$work/${name%.ipynb}/$name" "$notebook"
    continue
  fi
  # Without PyTorch the lesson of a PyTorch model takes a generated one, which shows other figures.
  [[ $name == my_model* ]] && ! "$python" -c 'import torch' 2>/dev/null ||
    "$python" python/notebooks/plain.py "$work/${name%.ipynb}/$name" "$notebook" --check
  if [[ $took -gt 60 ]]; then
    echo "$name takes over a minute"
    exit 1
  fi
done
