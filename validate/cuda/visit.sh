#!/usr/bin/env bash
# One visit to a GPU: visit.sh [FOLDER]; also ./dev gpu. Ends within 9 minutes and downloads nothing.
# Builds the harness, answers what is not proven yet, measures, replays FOLDER/plans (or, where the
# simulator is built and validate/protocol has scenarios, plans predicted with the calibration just
# made), and leaves FOLDER: settled.txt, measurements.csv, machine.txt, steps.csv, timeline.csv, all
# large ones compressed, and visit.log. Exit code 77: no GPU here.
set -uo pipefail
shopt -s nullglob
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/results/gpu-$(date -u +%Y-%m-%d)}
limit=${VISIT_SECONDS:-510}
began=$SECONDS
status=0

mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 2
for file in "$folder"/{machine.txt,measurements.csv*,steps.csv*}; do
  [[ -e $file ]] && echo "$folder holds a run; take another folder" >&2 && exit 2
done
log=$folder/visit.log
: >"$log"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

say() { echo "$*" | tee -a "$log"; }
left() { echo $((limit - SECONDS + began)); }

# step NAME SECONDS COMMAND...: at most so long, and no longer than is left; remembers a failure.
step() {
  local name=$1 seconds=$2 rc=0
  shift 2
  (($(left) < seconds)) && seconds=$(left)
  if ((seconds < 10)); then
    say "== $name: left out, the time is up"
    status=1
    return 1
  fi
  say "== $name"
  timeout "$seconds" "$@" 2>&1 | tee -a "$log"
  rc=${PIPESTATUS[0]}
  ((rc == 0)) && return 0
  say "-- $name: exit code $rc$( ((rc == 124)) && echo ', out of time')"
  status=$rc
  return "$rc"
}

# Sets `harness`: built here if possible, else one that was carried along.
build_harness() {
  local generator=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  harness=$root/build/replay/baechi_replay
  if command -v cmake >/dev/null &&
    cmake -S "$root/validate/cuda" -B "$root/build/replay" "${generator[@]}" >>"$log" 2>&1 &&
    cmake --build "$root/build/replay" -j"$(nproc)" >>"$log" 2>&1 && [[ -x $harness ]]; then
    return 0
  fi
  for harness in "$root"/build/{replay,release,dev,quick}/baechi_replay; do
    [[ -x $harness ]] && "$harness" --help >/dev/null 2>&1 && return 0
  done
  say "baechi_replay cannot be built here (no nvcc?), and none was carried along; see $log"
  exit 1
}

# cuBLAS may have come with PyTorch's wheels.
find_cublas() {
  local site libraries
  site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
  libraries=("$site"/nvidia/*/lib/libcublas.so.1[23] /usr/local/cuda/lib64/libcublas.so.1[23])
  [[ ${#libraries[@]} -eq 0 ]] && return
  export LD_LIBRARY_PATH="${libraries[0]%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# Sets `simulator`, if there is one that starts here.
find_simulator() {
  for simulator in "$root"/build/{release,dev,quick}/baechi; do
    "$simulator" --help >/dev/null 2>&1 && return 0
  done
  simulator=
}

# Predictions before measuring: plans that stand in the folder are as they came; else they are made now.
make_plans() {
  local scenarios=("$root"/validate/protocol/*.yaml)
  [[ -n $simulator ]] && step calibrate 60 "$simulator" validate calibrate "$folder"
  [[ -d $folder/plans || -z $simulator || ${#scenarios[@]} -eq 0 ]] && return
  [[ -f $folder/calibration.yaml ]] || return
  step plans 60 "$simulator" validate plan "${scenarios[@]}" -o "$folder" \
    --calibration "$folder/calibration.yaml"
}

replay() {
  local plan plans=()
  for plan in "$folder"/plans/*.plan{,.gz,.zst}; do
    case $plan in
      *.plan) plans+=("$plan") ;;
      *.gz) gzip -dc "$plan" >"$temporary/$(basename "$plan" .gz)" ;;
      *.zst) zstd -dcq "$plan" >"$temporary/$(basename "$plan" .zst)" ;;
    esac
  done
  plans+=("$temporary"/*.plan)
  if [[ ${#plans[@]} -eq 0 ]]; then
    say "== replay: no plans in $folder/plans; 'baechi validate plan' makes them"
    return
  fi
  local seconds=$(($(left) - 40))
  ((seconds > 240)) && seconds=240
  step replay $((seconds + 30)) "$harness" "${plans[@]}" -o "$folder" --seconds "$((seconds > 1 ? seconds : 1))"
}

compress() {
  local file
  for file in "$folder"/{measurements,steps,timeline}.csv; do
    [[ -f $file ]] || continue
    if command -v zstd >/dev/null; then
      zstd -19 -q -f --rm "$file"
    elif command -v gzip >/dev/null; then
      gzip -9 -n -f "$file"
    fi
  done
}

command -v nvidia-smi >/dev/null && nvidia-smi -L >>"$log" 2>&1
build_harness
find_cublas
find_simulator
step settle 90 "$harness" --settle -o "$folder"
[[ $status -eq 77 ]] && exit 77
step measure 180 "$harness" --measure -o "$folder" --seconds 120
make_plans
replay
[[ -n $simulator && -f $folder/steps.csv ]] &&
  step report 60 "$simulator" validate report "$folder"
compress
say "== $folder, after $((SECONDS - began)) s"
du -ah "$folder" | tee -a "$log"
exit "$status"
