#!/bin/sh
# Makes the pictures of a page that the README shows, light and dark, from the demo as `make run` starts it, on a free
# port.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
printed=$(mktemp)
"$target/${PROFILE:-local}/pagemark" up --demo --listen 127.0.0.1:0 --dynamodb-listen 127.0.0.1:0 >"$printed" &
stack=$!
trap 'kill "$stack"; wait "$stack" || true; rm -f "$printed"' EXIT
until grep -q '^Pagemark is ready' "$printed"; do
    kill -0 "$stack" || exit 1
    sleep 0.2
done
base=$(sed -n 's/^ *pages *\(.*\)\/$/\1/p' "$printed")
echo "{\"url\": \"$base/product/espresso-machine/comments/en\", \"folder\": \"$PWD/docs\"}" |
    "$target/node-tools/node" --preserve-symlinks --preserve-symlinks-main "$target/node-tools/browser/screenshots.mjs"
