# packaging/Containerfile's steps in a chroot by debootstrap (needs root and network; half an hour; not part of all)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"; cd "$root"
install debootstrap
tests/install/container.sh
