#!/usr/bin/env bash
# Writes what travels to a machine with a GPU; also ./dev gpu kit.
#
#   kit.sh FOLDER    FOLDER gets the program with its libraries (it needs ld.so, libc, libm and libpthread alone), the replay
#                    harness, scripts, rehearsal plans and the held-out scenarios
#
# BAECHI and HARNESS name another program and another harness than those of build/release. Exit codes: 0, or 2 wrong arguments.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
if [[ $# -ne 1 ]]; then
  sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -n 's/^# \{0,1\}//p' >&2
  exit 2
fi
harness=${HARNESS:-$root/build/release/baechi_replay}
mkdir -p "$1" && kit=$(cd "$1" && pwd)
bundle=$(mktemp -d)
trap 'rm -rf "$bundle"' EXIT
strip "${BAECHI:-$root/build/release/baechi}" -o "$bundle/baechi"
ldd "$bundle/baechi" | awk '/=> \// {print $3}' | { grep -vE '/(libc|libm|libpthread|libdl|librt)\.so' || true; } | xargs -I{} cp -L {} "$bundle/"
tar -C "$bundle" -czf "$kit/bundle.tgz" .
cp "$here/visit.sh" "$root"/validate/steps/*.py "$root/scenarios/examples/torch_models.py" "$kit/"
mkdir -p "$kit/pytorch" && cp "$root"/validate/pytorch/*.py "$kit/pytorch/"
mkdir -p "$kit/validate" && cp -r "$root/validate/protocol" "$kit/validate/"
mkdir -p "$kit/scenarios" && cp -r "$root/scenarios/clusters" "$kit/scenarios/" # which the held-out scenarios name
rm -rf "$kit/runs/rehearsal" && "$bundle/baechi" validate plan "$root/validate/rehearsal.yaml" -o "$kit/runs/rehearsal" >&2
if [[ -x $harness ]]; then
  cp "$harness" "$kit/baechi_replay"
  "$kit/baechi_replay" --check "$kit"/runs/rehearsal/plans/*.plan | tail -n 1
else
  echo "no harness: build/release/baechi_replay takes nvcc; HARNESS names one for the visit" >&2
fi
du -sh --apparent-size "$kit"
