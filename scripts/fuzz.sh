#!/bin/sh
# Builds and runs the fuzz target of the counted tree for so many seconds. These flags are those of cargo-fuzz, without
# the sanitizers that need a nightly compiler. `make fuzz` calls it.
set -eu
. "$(dirname "$0")/system-packages.sh"
cd "$(dirname "$0")/../counted-tree/fuzz"

# libfuzzer-sys compiles C++.
if ! command -v "${CXX:-c++}" >/dev/null 2>&1; then
    install_packages "A C++ compiler" build-essential gcc-c++ build-base gcc
fi

seconds=$1
target_folder=$2
coverage="-Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage="$coverage -Cllvm-args=-sanitizer-coverage-$option"
done
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target the flags apply to the fuzzed code alone, not to build scripts.
RUSTFLAGS="--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 $coverage" \
    cargo build --locked --release --target "$host" --target-dir "$target_folder/fuzz"
mkdir -p "$target_folder/fuzz/corpus"
exec "$target_folder/fuzz/$host/release/steps" "$target_folder/fuzz/corpus" -max_total_time="$seconds" -max_len=8000 -len_control=0
