# [FILTER]: the benchmarks of bench/README.md
# --against REV [FILTER]: that revision beside this one: ratios, and whether a U test tells them apart
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
build release
if [[ ${1:-} == --against ]]; then
  install against
  other=$(mktemp -d)
  trap 'git worktree remove --force "$other/tree"; rm -rf "$other"' EXIT
  git worktree add --quiet --detach "$other/tree" "$2"
  (cd "$other/tree" && cmake --preset release >/dev/null)
  cmake --build "$other/tree/build/release" --target baechi_bench >&2
  /usr/bin/python3 /usr/share/benchmark/compare.py benchmarks "$other/tree/build/release/baechi_bench" \
    build/release/baechi_bench --benchmark_repetitions=10 --benchmark_filter="${3:-.}"
  exit
fi
build/release/baechi_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only \
  --benchmark_enable_random_interleaving --benchmark_filter="${1:-.}"
