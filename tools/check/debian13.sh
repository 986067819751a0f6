# the README's commands, all tests, the package and a wheel in a chroot of Debian 13 by debootstrap, from the registry
# of this machine's apt (needs root and network; an hour; not part of all)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install debootstrap
tests/install/container.sh trixie wheel
