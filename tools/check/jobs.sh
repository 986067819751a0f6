# the files of scenarios/jobs, as far as this machine allows
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install parallel snakemake
build release baechi
tests/jobs/check.sh build/release/baechi scenarios/examples/sweep_bandwidth.yaml
