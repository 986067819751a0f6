# clang-format
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install clang-format-19
git ls-files '*.h' '*.cpp' | xargs clang-format-19 --dry-run -Werror
