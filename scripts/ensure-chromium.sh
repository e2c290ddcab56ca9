#!/bin/sh
# Ensures that Chromium is installed, for the tests of pages. PAGEMARK_CHROMIUM names a different one.
set -eu
. "$(dirname "$0")/system-packages.sh"

for program in ${PAGEMARK_CHROMIUM:-chromium chromium-browser google-chrome google-chrome-stable}; do
    command -v "$program" >/dev/null 2>&1 && exit 0
done

if [ -n "${PAGEMARK_CHROMIUM:-}" ]; then
    echo "PAGEMARK_CHROMIUM is $PAGEMARK_CHROMIUM, which is not a program." >&2
    exit 1
fi
if grep -qs '^ID=ubuntu' /etc/os-release; then
    echo "Chromium is missing. Ubuntu's package is a snap, which sees no temporary files. Install https://www.google.com/chrome," >&2
    echo "or name a Chromium elsewhere by PAGEMARK_CHROMIUM." >&2
    exit 1
fi
install_packages "Chromium" "chromium fonts-dejavu-core" chromium chromium "--cask google-chrome"
