# What ./dev and the scripts of tools/dev and tools/check share. $root is the checkout.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# install LIST|PACKAGE...: installs what is missing, as root or with sudo. A LIST is a file of packaging/packages.
install() {
  local word package missing=() as_root=()
  for word in "$@"; do
    for package in $(cat "$root/packaging/packages/$word.txt" 2>/dev/null || echo "$word"); do
      dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
    done
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  echo "installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  # Another apt may be at work: wait for it.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build PRESET [TARGET...]: installs what a build needs, then configures and builds.
build() {
  local targets=("${@:2}")
  install build
  (cd "$root" && cmake --preset "$1" >/dev/null)
  [[ -f $root/build/$1/.ninja_log ]] || echo "the first build of $1 takes about $((1 + 6 / $(nproc))) minutes" >&2
  cmake --build "$root/build/$1" ${targets:+--target "${targets[@]}"} >&2
}

# run_tests PRESET: builds and runs all tests but the fuzzers, a case of ctest for each folder. The last line counts the
# passed, failed and skipped tests. A test that cannot run here prints a message "skipped: why".
run_tests() {
  build "$1" baechi_tests
  local status=0
  ctest --test-dir "$root/build/$1" -LE fuzz -j "$(nproc)" --output-on-failure --no-tests=error || status=$?
  awk -v status=$status '
    /^TEST CASE:/ { counted = 0 }
    /MESSAGE: skipped:/ && !counted { ++skipped; counted = 1; print }
    /^\[doctest\] test cases:/ { gsub(/\|/, " "); passed += $5; failed += $7 }
    END {
      if (status != 0 && failed == 0) failed = 1  # a program ended before its summary
      printf "%d passed, %d failed%s\n", passed - skipped, failed, skipped ? ", " skipped " skipped" : ""
    }' "$root/build/$1/Testing/Temporary/LastTest.log"
  return $status
}

# Builds the Python package and its program for $python: the python3 that is called so here if its headers are there,
# else Debian's. With its own pybind11, if it has one.
build_python() {
  install build python
  [[ -n ${python:-} ]] || python=$(python3 -c 'import sys; print(sys.executable)')
  "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_paths()["include"] + "/Python.h")' 2>/dev/null ||
    python=/usr/bin/python3
  (cd "$root" && cmake --preset python -D Python3_EXECUTABLE="$python" \
    -D pybind11_DIR="$("$python" -m pybind11 --cmakedir 2>/dev/null)" >/dev/null)
  cmake --build "$root/build/python" --target baechi_python baechi >&2
}
