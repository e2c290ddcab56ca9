#!/bin/sh
# Ensures that this machine can run programs for arm64: it is one, or qemu-aarch64 is installed.
set -eu
. "$(dirname "$0")/system-packages.sh"

case $(uname -m) in
aarch64 | arm64) exit 0 ;;
esac
command -v qemu-aarch64 >/dev/null 2>&1 || command -v qemu-aarch64-static >/dev/null 2>&1 ||
    install_packages "qemu-aarch64, which runs programs for arm64" qemu-user qemu-user-static qemu-aarch64 qemu
