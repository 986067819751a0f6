# clang-tidy; with --since REVISION only the files that changed since
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install build clang-19 clang-tidy-19
cmake --preset quick >/dev/null  # for its compile commands, one per file, and its generated sources
if [[ ${1:-} == --since ]]; then
  git diff --name-only --diff-filter=d "$2" -- '*.cpp'
else
  git ls-files '*.cpp'
fi | while read -r file; do
  if grep -q "/$file\"" build/quick/compile_commands.json; then echo "$file"; fi
done | xargs -r -n 1 -P "$(nproc)" clang-tidy-19 -p build/quick --quiet
