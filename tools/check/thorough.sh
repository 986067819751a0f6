# the tests with all that the long cases can try (BAECHI_THOROUGH=1)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
BAECHI_THOROUGH=1 run_tests test
