#!/bin/sh
# Compares this working tree with another revision: `make bench NAME=api BASE=main RUNS=5`. Both are built, and measure
# in turns on this machine. `bench compare-revisions` prints the ratio of each figure.
#
# BASE is the revision, and must have the profile `deployed`.
# BUILD is the command that builds the measured programs.
# NAME is what is measured: everything without it.
# RUNS is the number of rounds.
set -eu
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify --quiet --end-of-options "$BASE^{commit}") || {
    echo "BASE=$BASE is no revision of this repository." >&2
    exit 1
}
mkdir -p "${CARGO_TARGET_DIR:-target}/bench"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
tree=$target/bench/base
rounds=$target/bench/revisions

echo "Building this working tree."
$BUILD

# The base has a target folder of its own. Cargo names what it builds alike in every checkout, and takes a file for
# unchanged if it is older than what was built, so in a shared folder it would take one revision for the other. The folder
# begins with a copy of what was built here, for the libraries. All files of the checkout are newer than the copy.
echo "Building the base, $BASE, in $tree."
if [ ! -d "$tree" ]; then
    git worktree add --quiet --force --detach "$tree" "$base"
    mkdir "$tree/target"
    cp -a "$target/deployed" "$tree/target/"
fi
git -C "$tree" checkout --quiet --force --detach "$base"
(cd "$tree" && CARGO_TARGET_DIR=$tree/target $BUILD)

measure() { # REVISION TARGET
    echo
    echo "##### Round $round of $RUNS: $1"
    "$2/deployed/bench" --folder "$rounds/$1/$round" ${NAME:+--only "$NAME"} || {
        echo "$1 failed in round $round, so nothing is compared." >&2
        exit 1
    }
}

# Which revision goes first changes with each round.
rm -rf "$rounds"
for round in $(seq "$RUNS"); do
    if [ $((round % 2)) -eq 1 ]; then
        measure base "$tree/target"
        measure new "$target"
    else
        measure new "$target"
        measure base "$tree/target"
    fi
done
echo
"$target/deployed/bench" compare-revisions "$rounds/base" "$rounds/new"
