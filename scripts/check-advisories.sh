#!/bin/sh
# Checks the dependencies against the database of security advisories (RustSec). A copy in the project would be out of
# date at once, so this script fetches it. Where it cannot be fetched, nothing is checked and a line says so. With
# PAGEMARK_ADVISORIES=required, that is an error.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
deny=$target/cargo-deny/bin/cargo-deny
# Git gives up a connection without data.
export GIT_HTTP_LOW_SPEED_LIMIT=1000 GIT_HTTP_LOW_SPEED_TIME=30
if ! "$deny" --log-level error fetch db >"$target/advisories.log" 2>&1; then
    echo "advisories were not checked: their database could not be fetched ($target/advisories.log)" >&2
    [ "${PAGEMARK_ADVISORIES:-}" != required ]
    exit
fi
"$deny" --log-level error check advisories
