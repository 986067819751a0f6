# tools/baechi_torch.py on three models against published counts, on 61 against real steps (not part of all: 1 GB of packages)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install python3-torch
build release baechi
/usr/bin/python3 -W ignore tests/tools/torch_check.py
BAECHI_DATA=$PWD /usr/bin/python3 -W ignore tests/tools/maps_check.py build/release/baechi --thorough
/usr/bin/python3 -W ignore tests/tools/torch_compare.py
