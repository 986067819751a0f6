#!/bin/sh
# Runs one sweep with GNU parallel: a shard per core, here or on the machines of --sshloginfile.
#   scenarios/jobs/parallel.sh my.yaml results/my 16 [OPTIONS OF PARALLEL]
# A shard that fails is tried three times. The same command continues an interrupted sweep.
set -eu
scenario=$1 out=$2 shards=$3
shift 3
seq "$shards" | parallel --retries 3 "$@" \
  "${BAECHI:-baechi}" run "$scenario" --shard "{}/$shards" --out "$out.{}" --resume --quiet -j 1
"${BAECHI:-baechi}" merge "$out".[0-9]* --out "$out"
