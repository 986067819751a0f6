# [N]: N random changes of tests/mutants/, all without N; says which no test notices
# --random N [--seed S] [FOLDER...]: N drawn changes of the program: swapped operators, dropped statements
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
# A few changes, or drawn ones, take the build that 'dev test' has; for many, a build of one file at a time pays.
preset=quick
[[ ! ${1:-} =~ ^([1-9]|--random)$ ]] || preset=test
build "$preset" baechi_tests
python3 tests/mutants/mutants.py "build/$preset" "$@"
