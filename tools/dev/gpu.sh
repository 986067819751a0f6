# kit FOLDER: what a visit to a GPU takes: the program with its libraries, the harness, scripts, plans [build/release]
# visit OUT KIT: on a machine with an NVIDIA GPU, within 8 minutes: steps of public models in PyTorch, benchmarks, and
# held-out plans, predicted and frozen there before they run; installs nothing
cuda=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../validate/cuda" && pwd)
case ${1:-} in
  visit) exec bash "$cuda/visit.sh" "${@:2}" ;;
  kit)
    source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
    [[ -n ${BAECHI:-} ]] || build release
    exec bash "$cuda/kit.sh" "${@:2}"
    ;;
esac
echo "./dev gpu kit FOLDER, or: ./dev gpu visit OUT KIT" >&2
exit 2
