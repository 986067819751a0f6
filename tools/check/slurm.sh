# a sweep in a Slurm of one node (needs root): rank 0 deals, an array of shards, and neither
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
if [[ $(id -u) -ne 0 ]]; then
  echo "skipped: needs root"
  exit
fi
install cluster
build release baechi
tests/slurm/check.sh build/release/baechi scenarios/examples/sweep_bandwidth.yaml
