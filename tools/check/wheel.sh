# the wheel in a venv of a folder without compiler (not part of all)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install python3-venv mypy
bash tools/dev/python.sh wheel build/python
tests/install/wheel.sh build/python/baechi_sim-*.whl
