#!/bin/sh
# Prints the arguments with which the guarantees run on ministack: the name of each module whose constant
# `const _: crate::Engines` says so (tests/fixture/engine.rs), and --skip for each test that the constant excuses.
set -eu
cd "$(dirname "$0")/../tests"

for file in $(grep -rl --include='*.rs' '^const _: crate::Engines =' . | sort); do
    module=$(echo "$file" | sed 's,^\./,,; s,/mod\.rs$,,; s,\.rs$,,; s,/,::,g')
    constant=$(sed -n '/^const _: crate::Engines =/,/;$/p' "$file")
    case $constant in *Engines::Embedded*) continue ;; esac
    echo "$module::"
    echo "$constant" | sed -n "s/.*test: \"\([a-z0-9_:]*\)\".*/--skip $module::\1/p"
done
