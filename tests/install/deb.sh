#!/usr/bin/env bash
# deb.sh PACKAGE: checks that lintian finds no error, that the unpacked program runs the first scenario from another
# folder and, as root, that the package installs and that removing it leaves nothing behind.
set -euo pipefail
package=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
lintian --fail-on error --allow-root "$package"
echo "lintian: no errors"
dpkg-deb -x "$package" "$folder/unpacked"
mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
first() {
  "$1" run first --quiet
  [[ $(wc -l <results/first/results.csv) == 241 ]]  # 8 placers, 3 graphs, 2 clusters, 5 fractions, and the header
  rm -rf results
}
first "$folder/unpacked/usr/bin/baechi" && echo "unpacked: runs the first scenario"
if [[ $(id -u) -ne 0 ]]; then
  echo "not installed: needs root"
  exit
fi
if dpkg-query -W baechi-sim >/dev/null 2>&1; then
  echo "not installed: another version is installed"
  exit
fi
apt-get install -y -qq --no-install-recommends "$package" >/dev/null
trap 'apt-get remove -y -qq baechi-sim >/dev/null; rm -rf "$folder"' EXIT
first /usr/bin/baechi && echo "installed: runs the first scenario"
apt-get remove -y -qq --purge baechi-sim >/dev/null
trap 'rm -rf "$folder"' EXIT
for left in /usr/bin/baechi /usr/share/baechi-sim /usr/share/doc/baechi-sim; do
  [[ ! -e $left ]] || { echo "left behind: $left"; exit 1; }
done
echo "removed: nothing is left"
