#!/usr/bin/env bash
# One visit to a GPU; also ./dev gpu. Ends within 9 minutes, downloads nothing, changes no setting.
#
#   visit.sh look OUT [RUNS]     what is true of this GPU: settled questions, benchmarks, the rehearsal plans
#                                in RUNS/rehearsal*/plans, recorded PyTorch steps. No held-out plan runs.
#   visit.sh protocol OUT RUNS   the benchmarks as a control, then the plans in RUNS/NAME/plans, whose predictions
#                                are committed: at most four NAMEs
#
# OUT gets at most 8 files: facts.txt, clocks.csv, log.txt, and an archive per phase, written as the phase ends, also
# of what a phase that was killed has left. HARNESS names another baechi_replay. Exit codes: 0 every phase ended well;
# 1 one did not; 2 wrong arguments; 77 no GPU here.
set -uo pipefail
shopt -s nullglob
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
verb=${1:-} out=${2:-} runs=${3:-}
usage() {
  sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -n 's/^# \{0,1\}//p' >&2
  exit 2
}
[[ $verb == look && -n $out || $verb == protocol && -n $out && -d $runs ]] || usage
[[ -z $runs || -d $runs ]] || usage
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
if [[ -n $(ls -A "$out") ]]; then
  echo "$out is not empty; take another folder" >&2
  exit 2
fi
[[ -n $runs ]] && runs=$(cd "$runs" && pwd)
sets=()
if [[ $verb == protocol ]]; then
  for run in "$runs"/*/plans; do sets+=("$(basename "$(dirname "$run")")"); done
  if ((${#sets[@]} < 1 || ${#sets[@]} > 4)); then
    echo "$runs holds ${#sets[@]} sets of plans; a visit takes 1 to 4" >&2
    exit 2
  fi
fi
work=$(mktemp -d)
began=$SECONDS
status=0
smi=
trap '[[ -n $smi ]] && kill "$smi" 2>/dev/null; rm -rf "$work"' EXIT

left() { echo $((${VISIT_SECONDS:-540} - SECONDS + began)); }
say() { echo "[$((SECONDS - began)) s] $*" | tee -a "$out/log.txt"; }

# phase NAME SECONDS COMMAND...: at most so long, and no longer than is left; the end of what it printed goes to the log.
phase() {
  local name=$1 seconds=$2 rc
  shift 2
  (($(left) - 10 < seconds)) && seconds=$(($(left) - 10))
  if ((seconds < 10)); then
    say "$name: no time left"
    status=1
    return 1
  fi
  say "$name: at most $seconds s"
  timeout -k 10 "$seconds" "$@" >>"$work/$name.log" 2>&1
  rc=$?
  tail -n 30 "$work/$name.log" | cut -c1-400 | tee -a "$out/log.txt"
  say "$name: exit code $rc"
  ((rc == 0)) || status=1
  return "$rc"
}

# lasting NAME SECONDS ARGUMENTS...: the harness into $work/NAME; where the GPU is lost to one process, others go on.
lasting() {
  local name=$1 end=$((SECONDS + $2)) rc=0 more=()
  shift 2
  for _ in 1 2 3 4; do
    phase "$name" $((end - SECONDS)) "$harness" "$@" "${more[@]}" -o "$work/$name"
    rc=$?
    ((rc == 3)) || break
    more=(--more)
  done
  return "$rc"
}

pack() { # NAME: also what a killed phase left behind
  [[ -d $work/$1 ]] || mkdir "$work/$1"
  cp "$work/$1"*.log "$work/$1/" 2>/dev/null
  tar -C "$work" -czf "$out/$1.tgz" "$1"
}

facts() {
  {
    date -u; uname -srm; nvidia-smi; lscpu; free -g; ldd --version | head -1; nvcc --version; cmake --version
    python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda)'
  } >"$out/facts.txt" 2>&1
  if [[ -z ${HARNESS:-} ]] && ! nvidia-smi -L >/dev/null 2>&1; then
    say "no GPU here"
    exit 77
  fi
  nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader \
    -lms 1000 >"$out/clocks.csv" 2>/dev/null &
  smi=$!
}

by_cmake() {
  cmake -S "$root/validate/cuda" -B "$work/b" -G Ninja && cmake --build "$work/b" && cp "$work/b/baechi_replay" "$work/harness"
}
by_hand() {
  nvcc -std=c++20 -O3 -arch=sm_90 -cudart static -I"$root" -DREPLAY_COMMIT='"built there"' "$root"/validate/cuda/kernels.cu \
    "$root"/validate/cuda/*.cpp "$root"/validate/plan/*.cpp -o "$work/harness" -ldl
}
export -f by_cmake by_hand
export work root

# Sets `harness`: one that was carried along, which knows its commit; else it is built here.
find_harness() {
  for harness in "${HARNESS:-}" "$root"/build/{release,test,quick}/baechi_replay; do
    [[ -n $harness ]] && "$harness" --help >/dev/null 2>&1 && say "harness $harness" && return
  done
  harness=$work/harness
  phase build 120 bash -c by_cmake || phase build 150 bash -c by_hand || {
    say "no harness: none was carried along, and none could be built"
    exit 1
  }
  status=0
}

# cuBLAS may have come with PyTorch's wheels.
find_cublas() {
  local site library
  site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
  for library in "$site"/nvidia/*/lib/libcublas.so.1[23] /usr/local/cuda/lib64/libcublas.so.1[23]; do
    export LD_LIBRARY_PATH=${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    return
  done
}

parts=() # for measuring and replaying
mode=()  # for replaying

# Sets `parts` and `mode` by what was answered BAD.
settle() { # SECONDS
  local before=$status
  phase settle "$1" "$harness" --settle -o "$work/settle"
  [[ -f $work/settle/settled.txt ]] && status=$before # all was asked; an answer may be BAD
  if grep -q '^BAD 0 ' "$work/settle.log"; then
    pack settle
    say "the kernels are wrong: nothing else counts"
    exit 1
  fi
  if grep -q '^BAD 1 ' "$work/settle.log"; then
    parts=(--no-partitions)
    say "no green contexts: from here on with --no-partitions"
  fi
  if grep -q '^BAD 2 ' "$work/settle.log"; then
    mode=(--mode stream)
    say "no graphs over parts: from here on with --mode stream"
  fi
}

measure() { # NAME SECONDS SECONDS_OF_CUBLAS
  lasting "$1" $(($2 + 60)) --measure "${parts[@]}" --seconds "$2"
  (($3 > 0)) && phase "$1_cublas" $(($3 + 30)) "$harness" --measure --cublas --more "${parts[@]}" --seconds "$3" -o "$work/$1"
  pack "$1"
}

replays() { # NAME SECONDS: the plans of RUNS/NAME
  local seconds=$2 more=()
  (($(left) - 30 < seconds)) && seconds=$(($(left) - 30))
  if ((seconds < 10)); then
    say "$1: no time left"
    status=1
    return
  fi
  [[ $1 == *memory* ]] && more=(--warm-up 0 --rounds 1)
  mkdir -p "$work/$1"
  lasting "$1" $((seconds + 30)) "${parts[@]}" "${mode[@]}" --seconds "$seconds" "${more[@]}" "$runs/$1"/plans/*.plan
  pack "$1"
}

look() {
  local run
  settle 90
  pack settle
  measure measure 90 20
  for run in "$runs"/rehearsal*; do
    [[ -n $runs && -d $run/plans ]] && replays "$(basename "$run")" 40
    (($(find "$out" -type f | wc -l) < 7)) || break
  done
  if [[ -f $root/validate/record_pytorch.py ]] && python3 -c 'import torch' 2>/dev/null; then
    phase pytorch 150 python3 -u "$root/validate/record_pytorch.py" "$work/pytorch" --seconds 110
    pack pytorch
  fi
}

protocol() {
  local run seconds
  settle 60
  mkdir -p "$work/control" && cp -r "$work/settle" "$work/control/"
  measure control 35 0
  for run in "${sets[@]}"; do
    seconds=$((($(left) - 40) / ${#sets[@]} - 5))
    replays "$run" $((seconds < 110 ? seconds : 110))
  done
}

facts
find_harness
find_cublas
case $verb in
  look) look ;;
  protocol) protocol ;;
esac
say "done: $(find "$out" -type f | wc -l) files"
exit "$status"
