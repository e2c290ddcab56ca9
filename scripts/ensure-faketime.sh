#!/bin/sh
# Ensures that libfaketime is installed: `make soak` sets the clock of a process a day back with it. Without it, the soak says
# that it does not.
set -eu
. "$(dirname "$0")/system-packages.sh"

for folder in /usr/lib/*/faketime /usr/lib64/faketime /usr/lib/faketime; do
    [ ! -e "$folder/libfaketimeMT.so.1" ] || exit 0
done
install_packages "libfaketime" libfaketime libfaketime libfaketime libfaketime || true
