#!/usr/bin/env bash
# check.sh BUILD: installs BUILD into an empty folder, and tests the program, its data, the CMake package and the
# completions from another folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/usr

# expect WHAT EXPECTED GOT
expect() {
  [[ $3 == "$2" ]] || { echo "$1: expected '$2', got '$3'"; exit 1; }
  echo "$1: as expected"
}

cmake --install "$1" --prefix "$prefix" >/dev/null
mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
baechi=$prefix/bin/baechi

expect "version" "baechi 1.0.0" "$("$baechi" --version | cut -d ' ' -f 1,2)"
run_code() {
  "$baechi" run "$1" --out "out_$2" --quiet >/dev/null 2>&1 && echo 0 || echo $?
}
expect "a scenario by its name" 0 "$(run_code slow_link name)"
expect "a scenario by its path in the checkout" 0 "$(run_code scenarios/examples/slow_link.yaml path)"
expect "the papers" yes "$("$baechi" list papers | grep -q baechi_socc20 && echo yes)"
expect "a recorded trace" yes \
  "$("$baechi" trace info traces/data/transformer_small_train.trace.json.zst | grep -q ops && echo yes)"

# bash completes verbs, flags and placers.
completions=$prefix/share/bash-completion/completions/baechi
complete_line() {
  PATH=$prefix/bin:$PATH bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _baechi
    echo "${COMPREPLY[*]}"' bash "$completions" "$@"
}
expect "completion of a verb" "place plan" "$(complete_line baechi pla)"
expect "completion of a flag" "--placement" "$(complete_line baechi simulate --placem)"
expect "completion of a placer" "m_etf" "$(complete_line baechi place --placer m_e)"

cmake -S "$here/user" -B user -D CMAKE_PREFIX_PATH="$prefix" -D CMAKE_BUILD_TYPE=Release >/dev/null
cmake --build user >/dev/null
expect "a user's program, by find_package(BaechiSim)" "30 ns" "$(user/user)"
