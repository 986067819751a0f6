#!/usr/bin/env bash
# One visit to a GPU within 8 minutes; also ./dev gpu visit. Downloads nothing, changes no setting of the card.
#
#   visit.sh OUT KIT    KIT is what kit.sh wrote
#
# Its phases, the most valuable first: steps of public models by PyTorch; what is true of this GPU; benchmarks; held-out
# plans, calibrated, predicted and frozen here: their hash is in log.txt before the first of them is replayed; kernels of
# PyTorch alone; steps of two processes that share the GPU under MPS, a daemon of the visit's own.
# OUT gets at most 8 files: facts.txt, clocks.csv, log.txt, and an archive per phase, written as the phase ends, also of
# what a phase that was killed has left. HARNESS names another baechi_replay, STEPS, KERNELS and PAIR have arguments for
# steps.py, torch_kernels.py and evaluate.py, VISIT_SECONDS the time [480]. Exit codes: 0 every phase ended well; 1 one did not; 2 wrong arguments; 77 no GPU here.
set -uo pipefail
usage() {
  sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -n 's/^# \{0,1\}//p' >&2
  exit 2
}
[[ $# -eq 2 && -f $2/bundle.tgz ]] || usage
mkdir -p "$1" && out=$(cd "$1" && pwd) && kit=$(cd "$2" && pwd) || exit 2
if [[ -e $out/log.txt ]]; then
  echo "$out has a visit; take another folder" >&2
  exit 2
fi
work=$(mktemp -d || mktemp -d -p "$out/..") || exit 2
began=$SECONDS
status=0
smi=
mps=
trap '[[ -n $smi ]] && kill "$smi" 2>/dev/null; [[ -n $mps ]] && echo quit | nvidia-cuda-mps-control; rm -rf "$work"' EXIT

left() { echo $((${VISIT_SECONDS:-480} - SECONDS + began)); }
say() { echo "[$((SECONDS - began)) s] $*" | tee -a "$out/log.txt"; }

# phase NAME SECONDS COMMAND...: at most so long, and no longer than is left; the end of what it printed goes to the log.
phase() {
  local name=$1 seconds=$2 rc
  shift 2
  (($(left) < seconds)) && seconds=$(left)
  if ((seconds < 8)); then
    say "$name: no time left"
    status=1
    return 1
  fi
  timeout -k 5 "$seconds" "$@" >>"$work/$name.log" 2>&1
  rc=$?
  tail -n 14 "$work/$name.log" | cut -c1-300 | tee -a "$out/log.txt"
  say "$name: exit code $rc of at most $seconds s"
  ((rc == 0)) || status=1
  ((rc < 124)) || sleep 2 # what was killed still has the GPU for a while, which may be for one process alone
  return "$rc"
}

# lasting NAME SECONDS OUT ARGUMENTS...: the harness into OUT; where the GPU is lost to one process, others go on.
lasting() {
  local name=$1 end=$((SECONDS + $2)) to=$3 rc=0 more=()
  shift 3
  for _ in 1 2 3 4; do
    phase "$name" $((end - SECONDS)) "$harness" "$@" "${parts[@]}" "${more[@]}" -o "$to"
    rc=$?
    ((rc == 3)) || break
    more=(--more)
  done
  return "$rc"
}

pack() { # NAME FILE...: what there is of the files of the phase
  local name=$1 found=() file
  shift
  for file in "$@"; do [[ -e $work/$file ]] && found+=("$file"); done
  ((${#found[@]} == 0)) || tar -C "$work" -czf "$out/$name.tgz" "${found[@]}"
}

# Whether there is a GPU, the harness says: nvidia-smi may be missing where CUDA works.
facts() {
  {
    date -u; uname -srm; timeout -k 5 20 nvidia-smi; lscpu; free -g; df -h "$work" "$out"; ldd --version | head -n 1
    nvcc --version; ls -l /usr/bin/nvidia-cuda-mps*
    env | grep -E '^(CUDA|NVIDIA|LD_LIBRARY_PATH)'
  } >"$out/facts.txt" 2>&1
  nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader \
    -lms 1000 >"$out/clocks.csv" 2>/dev/null &
  smi=$!
}

# Steps of models as their authors publish them: a line of steps.jsonl for each as soon as it is known.
python=python3
steps() {
  local candidate
  for candidate in python3 /usr/bin/python3; do # without importing it, which takes a minute on a cold machine
    "$candidate" -c 'import sys; from importlib import util; sys.exit(util.find_spec("torch") is None)' 2>/dev/null || continue
    python=$candidate
    break
  done
  # shellcheck disable=SC2086
  phase steps 170 "$python" -u "$kit/steps.py" "$work/steps" --seconds 140 ${STEPS:-}
  pack steps steps steps.log
}

parts=() # for measuring and replaying
mode=()  # for replaying, and for its plans

# Sets `parts` and `mode` by what was not answered well. A question that ended or stopped the process has no answer.
settle() {
  local before=$status rc=0
  phase settle 60 "$harness" --settle -o "$work/settle" || rc=$?
  if ((rc == 77)); then # of a driver older than the harness's CUDA; what is built here has the CUDA of here
    [[ -e /dev/nvidiactl && -d validate/cuda ]] || return 77
    phase build 150 env PATH="$PATH:/usr/local/cuda/bin" nvcc -std=c++20 -O3 -arch=sm_90 -cudart static -I. \
      -DREPLAY_COMMIT='"built there"' validate/cuda/*.c* validate/plan/*.cpp -o "$work/baechi_replay" -ldl || return 77
    harness=$work/baechi_replay
    phase settle 60 "$harness" --settle -o "$work/settle" || rc=$?
    ((rc != 77)) || return 77
  fi
  [[ -f $work/settle/settled.txt ]] && status=$before # all was asked; an answer may be BAD
  if grep -qs '^BAD 0 ' "$work/settle.log"; then
    say "the kernels are wrong: nothing else counts"
    return 1
  fi
  if ! grep -qs '^ok  1 ' "$work/settle.log"; then
    parts=(--no-partitions)
    say "no green contexts: from here on with --no-partitions"
  fi
  if ! grep -qs '^ok  2 ' "$work/settle.log"; then
    mode=(--mode stream)
    say "no graphs over parts: from here on with --mode stream"
  fi
}

unpack() { # the kit's program, with its libraries
  mkdir -p "$work/bundle"
  tar -C "$work/bundle" -xzf "$kit/bundle.tgz"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' "$work/bundle" "$work/bundle/baechi" >"$work/baechi"
  chmod +x "$work/baechi"
}

baechi() { "$work/baechi" "$@"; }

plan() { # NAME SCENARIO OPTION...: held-out plans, with their predictions
  baechi validate plan "$kit/validate/protocol/$2.yaml" "${mode[@]}" --calibration "$work/measure/calibration.yaml" "${@:3}" \
    -o "$work/held/$1" >>"$work/freeze.log" 2>&1
}

# Calibrates, predicts, prints the hash of all plans, and then replays them.
held_out() {
  local set held=(--neighbours 9 --random 20 --distinct 32 --overheads 5)
  mkdir -p "$work/held"
  if ! baechi validate calibrate "$work/measure" >"$work/calibrate.log" 2>&1; then
    say "no calibration, and the rehearsal in place of held-out plans: $(tail -n 1 "$work/calibrate.log")"
    status=1
    lasting rehearsal 45 "$work/held/rehearsal" "${mode[@]}" --seconds 30 "$kit"/runs/rehearsal/plans/*.plan
    return
  fi
  plan short short "${held[@]}"
  plan contended contended "${held[@]}"
  plan timed contended "${held[@]}" --bodies timed
  plan rings rings
  say "frozen: $(cd "$work/held" && find . -path '*/plans/*' -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-64) of" \
    "$(find "$work/held" -name '*.plan' | wc -l) plans; calibration $(sha256sum <"$work/measure/calibration.yaml" | cut -c1-16)"
  for set in short timed contended rings; do
    if [[ ! -d $work/held/$set/plans ]]; then
      say "$set: refused: $(tail -n 1 "$work/freeze.log" | cut -c1-200)"
      status=1
      continue
    fi
    lasting "$set" 45 "$work/held/$set" "${mode[@]}" --seconds 30 "$work/held/$set"/plans/*.plan
    baechi validate report "$work/held/$set" --calibration "$work/measure/calibration.yaml" >"$work/held/$set/report.txt" 2>&1
  done
}

kernels() {
  # shellcheck disable=SC2086
  phase kernels 70 "$python" -u "$kit/torch_kernels.py" "$work/kernels" --seconds 50 ${KERNELS:-}
  pack kernels kernels kernels.log
}

# What two processes do on one GPU: steps and peaks, recorded, predicted and frozen here before two processes run.
pair() {
  export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
  mkdir -p "$work/mps"
  if [[ -e /dev/nvidiactl ]] && timeout -k 5 20 nvidia-cuda-mps-control -d >>"$work/pair.log" 2>&1; then mps=1; fi
  # shellcheck disable=SC2086
  phase pair 150 "$python" -u "$kit/pytorch/evaluate.py" "$work/baechi" "$work/pair" \
    ${PAIR:-"$kit/pytorch/gpu_models.py" --device cuda --processes 2 --ways two_stages,gpipe_4,ddp --rounds 2}
  pack pair pair/predictions.json pair/score.csv pair/peaks.csv pair/log.txt pair.log
}

facts
unpack
steps
harness=${HARNESS:-$kit/baechi_replay}
[[ $harness == */* ]] && harness=$(realpath "$harness")
chmod +x "$harness" 2>/dev/null # what carried it may have dropped that
settle
case $? in
  0)
    lasting measure 90 "$work/measure" --measure --seconds 55
    pack harness settle settle.log measure measure.log
    held_out
    pack held held calibrate.log freeze.log measure/calibration.yaml
    ;;
  77)
    say "no GPU here that a harness could use"
    pack harness settle.log build.log
    exit 77
    ;;
  *) pack harness settle settle.log; status=1 ;;
esac
kernels # PyTorch's, which need no harness
pair
say "done: $(find "$out" -type f | wc -l) files"
exit "$status"
