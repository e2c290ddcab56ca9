#!/bin/sh
# ensure-python-tools.sh [LIST NAME]: ensures that target/NAME is a Python environment with the packages of LIST. The
# defaults are scripts/python-tools.txt and target/python, which the tests use.
#
# A list names each package and its dependencies with their hashes, and pip refuses any other file. It is made of the
# file that ends on .in (`uv` is a Python package):
#
#   uv pip compile --universal --generate-hashes --no-annotate --no-header --python-version 3.11 scripts/NAME.in -o scripts/NAME.txt
set -eu
. "$(dirname "$0")/system-packages.sh"
cd "$(dirname "$0")/.."

list=${1:-scripts/python-tools.txt}
folder=${CARGO_TARGET_DIR:-target}/${2:-python}
# The list is copied there last. If it matches, the environment was complete once for this list.
cmp -s "$list" "$folder/installed.txt" && [ -x "$folder/bin/python" ] && exit 0

make_environment() {
    rm -rf "$folder"
    mkdir -p "$folder"
    python3 -m venv "$folder" >"$folder.log" 2>&1
}

if ! make_environment; then
    install_packages "Python with its module venv" python3-venv python3 python3 python
    make_environment || {
        echo "Python cannot make an environment; the end of what it printed ($folder.log):" >&2
        tail -n 5 "$folder.log" >&2
        exit 1
    }
fi

echo "installing the Python packages of $list into $folder" >&2
if ! "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$list" >"$folder.log" 2>&1 </dev/null; then
    echo "pip could not install them; the end of what it says ($folder.log):" >&2
    tail -n 5 "$folder.log" >&2
    exit 1
fi
cp "$list" "$folder/installed.txt"
