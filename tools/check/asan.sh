# the tests under the address and undefined-behaviour sanitizers; pages in Chromium
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install build check drawing cluster
ASAN_OPTIONS=allow_addr2line=1 run_tests fuzz  # findings name functions without the package llvm-19
