#!/usr/bin/env bash
# check.sh BAECHI SCENARIO: runs the files of scenarios/jobs as far as this machine can, and compares their results
# with a run without shards. GNU parallel and Snakemake run where they are installed. HyperQueue is a stand-in that
# runs the tasks one after another.
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
