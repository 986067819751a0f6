# look OUT [RUNS]: on a machine with an NVIDIA GPU, within 9 minutes: what is true of it, benchmarks, the rehearsal plans
# in RUNS, recorded PyTorch steps; installs nothing
# protocol OUT RUNS: the same machine later: a control, and the plans whose predictions are committed
exec bash "$(dirname "${BASH_SOURCE[0]}")/../../validate/cuda/visit.sh" "$@"
