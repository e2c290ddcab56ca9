#!/bin/sh
# Measures four pages with Lighthouse, as on a phone: a product's front page, a deep page, a page of one language, and the
# list of products. Prints the scores and the reasons for lost points.
# Runs the whole stack as `make run` starts it, on a free port, in light and dark mode.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
printed=$(mktemp)
"$target/${PROFILE:-release}/pagemark" up --demo --listen 127.0.0.1:0 --dynamodb-listen 127.0.0.1:0 >"$printed" &
stack=$!
trap 'kill "$stack"; wait "$stack" || true; rm -f "$printed"' EXIT
until grep -q '^Pagemark is ready' "$printed"; do
    kill -0 "$stack" || exit 1
    sleep 0.2
done
url=$(sed -n 's/^ *pages *//p' "$printed")
base=${url%/}
path=/product/espresso-machine/comments
for dark in false true; do
    echo "{\"base\": \"$base\", \"pages\": [\"$path\", \"$path?page=7\", \"$path/de\", \"/products\"], \"dark\": $dark,
        \"categories\": [\"performance\", \"seo\", \"accessibility\", \"best-practices\"],
        \"least\": {\"performance\": 95, \"seo\": 100, \"accessibility\": 100, \"best-practices\": 100}}" |
        "$target/node-tools/node" --preserve-symlinks --preserve-symlinks-main "$target/node-tools/browser/lighthouse.mjs"
done
