# './dev site' (not part of all)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
bash tools/dev/site.sh build/site
