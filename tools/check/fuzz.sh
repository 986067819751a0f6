# FUZZ_SECONDS [60] of each fuzz target
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install build check
cmake --preset fuzz -D FUZZ_SECONDS="${FUZZ_SECONDS:-60}" >/dev/null
build fuzz fuzzers
ASAN_OPTIONS=allow_addr2line=1 ctest --test-dir build/fuzz -L fuzz -j "$(nproc)" --output-on-failure
