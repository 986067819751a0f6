# './dev torch' on all fifteen models: an hour on two idle cores (not part of all)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
bash tools/dev/torch.sh results/torch
