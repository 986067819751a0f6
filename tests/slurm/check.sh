#!/bin/bash
# Runs a scenario in a Slurm of one node, by rank 0 and as an array of shards, and compares both
# with a run without Slurm.
#   check.sh BAECHI SCENARIO
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
jobs=$here/../../scenarios/jobs
BAECHI=$(realpath "$1")
scenario=$(realpath "$2")
export BAECHI
work=$(mktemp -d)
chmod 755 "$work"
cleanup() {
  "$here/one_node.sh" stop "$work/slurm"
  rm -rf "$work"
}
trap cleanup EXIT

eval "$("$here/one_node.sh" start "$work/slurm")"
cd "$work"
# Needed because the test runs as root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

same() { "$here/../jobs/same.py" "$@"; }

"$BAECHI" run "$scenario" --out plain --quiet
sbatch --quiet --wait --nodes 1 "$jobs/mpi.sbatch" "$scenario" mpi
same mpi plain
sbatch --quiet --wait --array 1-3 "$jobs/array.sbatch" "$scenario" part 3
"$BAECHI" merge part.1 part.2 part.3 --out array 2>/dev/null
same array plain
salloc --quiet -n 2 --overcommit mpirun --oversubscribe "$BAECHI" run "$scenario" --out ranks --quiet
same ranks plain
