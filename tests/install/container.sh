#!/usr/bin/env bash
# container.sh [RELEASE [CHECK...]]: runs the steps of packaging/Containerfile in a chroot of an empty Debian [bookworm], by debootstrap:
# the README's two commands, and checks; then installs the package in a second chroot. Needs root, apt's network, 4 GB in
# /var/tmp.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ $(id -u) -ne 0 ]]; then
  echo "skipped: needs root"
  exit
fi
release=${1:-bookworm}
work=$(mktemp -d /var/tmp/baechi-container.XXXX)
mounted=()
cleanup() {
  for place in "${mounted[@]}"; do umount "$place"; done
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
# Some of these files may be missing.
mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null || true; } |
  sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' | sed -n 1p)

# system NAME: an empty Debian in $work/NAME with this machine's apt configuration.
system() {
  debootstrap --variant=minbase --include=ca-certificates "$release" "$work/$1" "$mirror" >/dev/null
  cp /etc/resolv.conf "$work/$1/etc/"
  cp -r /etc/apt/apt.conf.d/. "$work/$1/etc/apt/apt.conf.d/"
  mount -t proc proc "$work/$1/proc" && mounted+=("$work/$1/proc")
}
inside() { chroot "$work/$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -c "$2"; }

steps=$(sed -n 's/^RUN \(\.\/dev run .*\)/\1/p' "$root/packaging/Containerfile")
[[ -n $steps ]]
system build
mkdir "$work/build/src"
(cd "$root" && git ls-files -co --exclude-standard -z | tar --null -T - -c) | tar -x -C "$work/build/src"
inside build "cd /src && $steps"
[[ $# -lt 2 ]] || inside build "cd /src && ./dev check ${*:2}"
system slim
cp "$work"/build/packages/*.deb "$work/slim/tmp/"
inside slim 'apt-get update -qq && apt-get install -y -qq --no-install-recommends /tmp/*.deb >/dev/null'
inside slim 'cd /tmp && baechi --version && baechi run first --quiet && wc -l results/first/results.csv'
echo "the container's steps work"
