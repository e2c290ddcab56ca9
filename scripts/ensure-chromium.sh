#!/bin/sh
# Sees to it that a Chromium can be run. On a continuous-integration machine (CI=true) that allows it, it is installed; on
# anybody's own machine nothing is installed unasked: the line to type is printed instead.
set -eu
. "$(dirname "$0")/packages.sh"

is_there() {
    for program in ${PAGEMARK_CHROMIUM:-chromium chromium-browser google-chrome google-chrome-stable}; do
        command -v "$program" >/dev/null 2>&1 && return 0
    done
    return 1
}

is_there && exit 0

if [ "${CI:-}" = true ] && [ -z "${PAGEMARK_CHROMIUM:-}" ] && command -v apt-get >/dev/null 2>&1; then
    echo "Chromium was not found; installing it" >&2
    {
        install_debian chromium fonts-dejavu-core
    } >&2 </dev/null || true
    is_there && exit 0
fi

echo "The tests of the pages need Chromium. Install it:" >&2
echo "  Debian:  sudo apt-get install chromium" >&2
echo "  Ubuntu:  https://www.google.com/chrome (the package chromium is a snap, which sees no temporary files)" >&2
echo "  Fedora:  sudo dnf install chromium" >&2
echo "  Alpine:  sudo apk add chromium" >&2
echo "  macOS:   brew install --cask google-chrome" >&2
echo "or name one elsewhere by PAGEMARK_CHROMIUM." >&2
exit 1
