#!/usr/bin/env bash
# check.sh BAECHI SCENARIO: runs the files of scenarios/jobs that this machine supports, and
# compares their results with
# # a run without shards. GNU parallel and Snakemake run if they are installed. HyperQueue is
# replaced by a script that
# # runs the tasks sequentially. The command of the Kubernetes job runs with JOB_COMPLETION_INDEX
# set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
jobs=$here/../../scenarios/jobs
BAECHI=$(realpath "$1")
scenario=$(realpath "$2")
export BAECHI
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$BAECHI" "$work/bin/baechi"
export PATH=$work/bin:$PATH
cd "$work"

same() { "$here/same.py" "$1" plain; }

"$BAECHI" run "$scenario" --out plain --quiet

# Kubernetes: indices 0 to 2; index 1 is missing at first.
command=$(sed -n "s/^ *- '\(shard=.*\)'\$/\1/p" "$jobs/kubernetes.yaml")
[[ -n $command ]]
for index in 0 2 1; do
  SHARDS=3 SCENARIO=$scenario OUT=kubernetes JOB_COMPLETION_INDEX=$index sh -c "$command"
  if [[ $index == 2 ]]; then
    code=0
    baechi merge kubernetes.1 kubernetes.3 --out kubernetes 2>said || code=$?
    [[ $code == 2 ]] && grep -q 'missing is shard 2/3' said
    [[ ! -e kubernetes ]]
    echo "merge without shard 2/3: exit code 2, and the shard is named"
  fi
done
baechi merge kubernetes.? --out kubernetes 2>/dev/null
same kubernetes

# HyperQueue: 'hq submit ... --array 1-N -- COMMAND' with HQ_TASK_ID.
cat >bin/hq <<'END'
#!/bin/sh
while [ "$1" != -- ]; do
  [ "$1" = --array ] && tasks=${2#1-}
  shift
done
shift
for HQ_TASK_ID in $(seq "$tasks"); do
  export HQ_TASK_ID
  "$@" || exit
done
END
chmod +x bin/hq
"$jobs/hyperqueue.sh" "$scenario" hyperqueue 3 2>/dev/null
same hyperqueue

if command -v parallel >/dev/null && parallel --version 2>/dev/null | grep -q GNU; then
  "$jobs/parallel.sh" "$scenario" parallel 3 -j 2 2>/dev/null
  same parallel
else
  echo "parallel: skipped, not installed"
fi
if command -v snakemake >/dev/null; then
  snakemake -s "$jobs/Snakefile" --cores 2 --config scenario="$scenario" out=snakemake shards=3 >said 2>&1 ||
    { cat said; exit 1; }
  same snakemake
else
  echo "snakemake: skipped, not installed"
fi
