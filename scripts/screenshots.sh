#!/bin/sh
# Makes the pictures of a page that the README shows, light and dark, from the demo.
set -eu
cd "$(dirname "$0")/.."
PROFILE=${PROFILE:-local}
. scripts/with-demo.sh
echo "{\"url\": \"$base/product/espresso-machine/comments/en\", \"folder\": \"$PWD/docs\"}" | in_browser screenshots.mjs
