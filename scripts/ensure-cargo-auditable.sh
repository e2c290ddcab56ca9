#!/bin/sh
# Installs cargo-auditable in target/cargo-auditable/bin. It writes the list of crates and versions into each program that
# `make package` builds.
set -eu
cd "$(dirname "$0")/.."

version=0.7.7
folder=${CARGO_TARGET_DIR:-target}/cargo-auditable
[ -x "$folder/bin/cargo-auditable" ] && [ "$(cat "$folder/compiled" 2>/dev/null)" = "$version" ] && exit 0
echo "compiling cargo-auditable $version into $folder" >&2
# In a separate target folder: a build under way has locked the usual one.
CARGO_TARGET_DIR=$folder/build cargo install --quiet --locked --root "$folder" --version "$version" cargo-auditable
rm -rf "$folder/build"
echo "$version" >"$folder/compiled"
