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
work=$(mktemp -d || mktemp -d -p "$root") || exit 2
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
  ((rc < 124)) || sleep 2 # what was killed still has the GPU for a while, which may be for one process alone
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
  tar -C "$work" -czf "$out/$1.tgz" "$1" && rm -rf "${work:?}/$1"
}

# Looks for PyTorch without importing it, which takes minutes on a cold machine.
find_torch() {
  timeout -k 5 60 python3 -c '
from importlib import metadata, util
if util.find_spec("torch") is None: raise SystemExit("torch: there is none")
print("torch", metadata.version("torch"))'
  case $? in
    0) touch "$work/torch" ;;
    124 | 137) say "python3 did not answer within 60 s whether there is PyTorch: taken for yes" && touch "$work/torch" ;;
  esac
}

# Whether there is a GPU, the harness says: nvidia-smi may be missing where CUDA works.
facts() {
  {
    date -u; uname -srm; timeout -k 5 20 nvidia-smi; lscpu; free -g; df -h "$work" "$out"; ldd --version | head -1
    nvcc --version; cmake --version
    find_torch
    env | grep -E '^(CUDA_(MODULE|DEVICE_MAX|LAUNCH)|LD_LIBRARY_PATH)'
  } >"$out/facts.txt" 2>&1
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
    chmod +x "$harness" 2>/dev/null # what carried it may have dropped that
    [[ -n $harness ]] && "$harness" --help >/dev/null 2>&1 && say "harness $harness" && return
  done
  build_harness
}

build_harness() {
  local before=$status
  harness=$work/harness
  PATH=$PATH:/usr/local/cuda/bin
  phase build 120 bash -c by_cmake || phase build 150 bash -c by_hand || return 1
  status=$before
}

# cuBLAS may have come with PyTorch's wheels.
find_cublas() {
  local site library
  for site in $(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null) /usr/local/cuda; do
    for library in "$site"/*/lib/libcublas.so.1[23] "$site"/lib64/libcublas.so.1[23]; do
      export LD_LIBRARY_PATH=${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
      return
    done
  done
}

parts=() # for measuring and replaying
mode=()  # for replaying

# Sets `parts` and `mode` by what was not answered well. A question that ended or stopped the process has no answer.
# Returns 77 where no harness finds a GPU that it can use.
settle() { # SECONDS
  local before=$status rc=0
  phase settle "$1" "$harness" --settle -o "$work/settle" || rc=$?
  if ((rc == 77)); then # with a driver older than the harness's CUDA; what is built here has the CUDA of here
    [[ -e /dev/nvidiactl && $harness != "$work/harness" ]] && build_harness || return 77
    phase settle "$1" "$harness" --settle -o "$work/settle"
    (($? != 77)) || return 77
  fi
  [[ -f $work/settle/settled.txt ]] && status=$before # all was asked; an answer may be BAD
  if grep -qs '^BAD 0 ' "$work/settle.log"; then
    pack settle
    give_up 1 "the kernels are wrong: nothing else counts"
  fi
  if ! grep -qs '^ok  1 ' "$work/settle.log"; then
    parts=(--no-partitions)
    say "no green contexts: from here on with --no-partitions"
  fi
  if ! grep -qs '^ok  2 ' "$work/settle.log"; then
    mode=(--mode stream)
    say "no graphs over parts: from here on with --mode stream"
  fi
  return 0
}

measure() { # NAME SECONDS SECONDS_OF_CUBLAS
  lasting "$1" $(($2 + 60)) --measure "${parts[@]}" --seconds "$2"
  (($3 > 0)) && phase "$1_cublas" $(($3 + 30)) "$harness" --measure --cublas --more "${parts[@]}" --seconds "$3" -o "$work/$1"
  pack "$1"
}

replays() { # NAME SECONDS: the plans of RUNS/NAME
  local seconds=$2
  (($(left) - 30 < seconds)) && seconds=$(($(left) - 30))
  if ((seconds < 10)); then
    say "$1: no time left"
    status=1
    return
  fi
  mkdir -p "$work/$1"
  lasting "$1" $((seconds + 30)) "${parts[@]}" "${mode[@]}" --seconds "$seconds" "$runs/$1"/plans/*.plan
  pack "$1"
}

# Recorded steps of PyTorch, which needs no harness.
pytorch() {
  if [[ -e $work/torch ]]; then
    mkdir -p "$work/pytorch"
    phase pytorch 150 bash -c 'for model in residual small_transformer mixer mixture; do
        python3 -u "$root/validate/pytorch/record.py" 0 "$root/validate/pytorch/models.py" $model "$work/pytorch" cuda 8; done'
    pack pytorch
  else
    say "pytorch: there is none"
  fi
}

look() {
  local run
  measure measure 90 20
  for run in "$runs"/rehearsal*; do
    [[ -n $runs && -d $run/plans ]] && replays "$(basename "$run")" 40
    (($(find "$out" -type f | wc -l) < 7)) || break
  done
}

protocol() {
  local seconds todo=${#sets[@]} run
  mkdir -p "$work/control" && cp -r "$work/settle" "$work/control/"
  measure control 35 0
  for run in "${sets[@]}"; do
    seconds=$((($(left) - 40) / todo - 5))
    replays "$run" $((seconds < 110 ? seconds : 110))
    todo=$((todo - 1))
  done
  # Steps of PyTorch whose predictions were frozen; this was never tried on a GPU.
  if [[ -e $runs/torch/predictions.json && -e $work/torch ]]; then
    cp -r "$runs/torch" "$work/torch_steps"
    phase torch_steps $(($(left) - 20)) python3 -u "$root/validate/pytorch/judge.py" - "$work/torch_steps" --device cuda --processes 2,4 \
      --only measure
    pack torch_steps
  fi
}

# give_up STATUS WHY: the visit ends; what needs no harness is brought home all the same.
give_up() {
  say "$2"
  [[ $verb == look ]] && pytorch
  exit "$1"
}

facts
find_harness || give_up 1 "no harness: none was carried along, and none could be built"
find_cublas
settle 90 || { (($? == 77)) && give_up 77 "no GPU here that a harness could use"; }
[[ $verb == look ]] && pack settle
case $verb in
  look) look ;;
  protocol) protocol ;;
esac
[[ $verb == look ]] && pytorch
say "done: $(find "$out" -type f | wc -l) files"
exit "$status"
