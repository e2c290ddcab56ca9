#!/bin/sh
# Sees to it that target/python is a Python environment with what scripts/python-tools.txt names, which the tests run; or,
# with a list and a name, that another is: `ensure-python-tools.sh scripts/package-tools.txt package-tools`. On a continuous-integration machine (CI=true) that allows it, a missing Python is installed.
set -eu
. "$(dirname "$0")/packages.sh"
cd "$(dirname "$0")/.."

list=${1:-scripts/python-tools.txt}
folder=${CARGO_TARGET_DIR:-target}/${2:-python}
# The list is copied there last: with it, the environment was complete once, and for this version of the list.
cmp -s "$list" "$folder/installed.txt" && [ -x "$folder/bin/python" ] && exit 0

make_environment() {
    rm -rf "$folder"
    mkdir -p "$folder"
    python3 -m venv "$folder" >"$folder.log" 2>&1
}

if ! make_environment; then
    if [ "${CI:-}" = true ] && command -v apt-get >/dev/null 2>&1; then
        echo "Python with its module venv was not found; installing it" >&2
        {
            install_debian python3-venv
        } >&2 </dev/null || true
    fi
    if ! make_environment; then
        echo "Python 3.9 or newer with its module venv is needed, for what $list names. Install it:" >&2
        echo "  Debian, Ubuntu: sudo apt-get install python3-venv" >&2
        echo "  Fedora:         sudo dnf install python3" >&2
        echo "  Alpine:         sudo apk add python3" >&2
        echo "  macOS:          brew install python" >&2
        exit 1
    fi
fi

echo "installing the Python packages of $list into $folder" >&2
if ! "$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$list" >"$folder.log" 2>&1 </dev/null; then
    echo "pip could not install them; the end of what it says ($folder.log):" >&2
    tail -n 5 "$folder.log" >&2
    exit 1
fi
cp "$list" "$folder/installed.txt"
