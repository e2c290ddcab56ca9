#!/bin/sh
# Ensures that Rust's cargo is installed, and a C compiler for the bundled SQLite.
set -eu
. "$(dirname "$0")/system-packages.sh"

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo was not found. Install Rust: https://rustup.rs (rust-toolchain.toml names the version)" >&2
    exit 1
fi
command -v cc >/dev/null 2>&1 && exit 0
if [ "$(uname)" = Darwin ]; then
    echo "A C compiler is missing. Type: xcode-select --install" >&2
    exit 1
fi
install_packages "A C compiler" build-essential gcc build-base gcc
