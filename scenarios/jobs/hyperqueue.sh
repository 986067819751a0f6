#!/bin/sh
# Runs one sweep as tasks of HyperQueue: task i runs shard i on one core.
#   scenarios/jobs/hyperqueue.sh my.yaml results/my 16
# HyperQueue starts the task of a lost worker again; --resume keeps the finished runs.
set -eu
scenario=$1 out=$2 shards=$3
hq submit --wait --cpus 1 --array "1-$shards" -- sh -c \
  'exec "${BAECHI:-baechi}" run "$1" --shard "$HQ_TASK_ID/$3" --out "$2.$HQ_TASK_ID" --resume --quiet -j 1' \
  shard "$scenario" "$out" "$shards"
"${BAECHI:-baechi}" merge "$out".[0-9]* --out "$out"
