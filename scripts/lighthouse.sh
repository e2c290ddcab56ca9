#!/bin/sh
# Measures four pages of the demo with Lighthouse, as on a phone, in light and dark mode: a product's front page, a deep page,
# a page of one language, and the list of products. Prints the scores and the reasons for lost points.
set -eu
cd "$(dirname "$0")/.."
PROFILE=${PROFILE:-release}
. scripts/with-demo.sh
path=/product/espresso-machine/comments
for dark in false true; do
    echo "{\"base\": \"$base\", \"pages\": [\"$path\", \"$path?page=7\", \"$path/de\", \"/products\"], \"dark\": $dark,
        \"categories\": [\"performance\", \"seo\", \"accessibility\", \"best-practices\"],
        \"least\": {\"performance\": 95, \"seo\": 100, \"accessibility\": 100, \"best-practices\": 100}}" |
        in_browser lighthouse.mjs
done
