# OUT [MODELS.py]: compares predictions with real PyTorch: records models in one process, benchmarks, predicts, fixes the
# predictions, then measures steps of two processes, and of four where there are cores; 'evaluate.py --help' has the options
if [[ $# -lt 1 ]]; then
  echo "./dev torch OUT [MODELS.py]" >&2
  exit 2
fi
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
python=python3
if ! python3 -c 'import torch, numpy' 2>/dev/null; then
  python=/usr/bin/python3
  "$python" -c 'import torch, numpy' 2>/dev/null || install python3-torch python3-numpy
  ldconfig -p | grep -q libopenblas || install libopenblas0-pthread ||
    echo "no OpenBLAS: GEMMs take several times as long as they could" >&2
fi
build release baechi
"$python" "$root/validate/pytorch/evaluate.py" "$root/build/release/baechi" "$@"
"$root/build/release/baechi" validate torch "$1"
