# every change of tests/mutants/ must fail a test
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
bash tools/dev/mutants.sh
