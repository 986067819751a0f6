# 'cmake --install', and a user's project built against it; the Debian package, by lintian, installed and removed
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
build release baechi
tests/install/check.sh build/release
install lintian
bash tools/dev/deb.sh build/release
tests/install/deb.sh build/release/baechi-sim_*.deb
