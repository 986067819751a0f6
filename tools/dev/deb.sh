# [FOLDER]: the Debian package, by cpack [build/release]
folder=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../../build/release}")
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install dpkg-dev file
build release baechi
rm -f "$folder"/baechi-sim_*.deb
mkdir -p "$folder"
(cd build/release && cpack -G DEB >/dev/null)
package=$(echo "$root"/build/release/baechi-sim_*.deb)
[[ $package -ef "$folder/$(basename "$package")" ]] || mv "$package" "$folder"
ls "$folder"/baechi-sim_*.deb
