#!/bin/sh
# One round of a move: makes the comments of the stack TO those of the stack FROM. See docs/moving.md.
#
# Usage: sh scripts/move-comments.sh FOLDER. The folder keeps both exports of the round, from.jsonl and to.jsonl.
#
# FROM_TABLE and FROM_URL name the old table and its engine; the URL `aws` is the endpoint of AWS. TO_TABLE and TO_URL
# name the new table. TO_API is the new API, such as https://comments.example.com/api/v1. TO_TOKEN is its write token.
# PAGEMARK is the program, if it is not on the PATH.
set -eu
: "${FROM_TABLE:?}" "${FROM_URL:?}" "${TO_TABLE:?}" "${TO_URL:?}" "${TO_API:?}" "${TO_TOKEN:?}"
PAGEMARK=${PAGEMARK:-pagemark}
mkdir -p "$1"
cd "$1"
# By bytes, so that sort and comm agree.
LC_ALL=C
export LC_ALL

"$PAGEMARK" export --table "$FROM_TABLE" --dynamodb-url "$FROM_URL" --output from.jsonl
"$PAGEMARK" export --table "$TO_TABLE" --dynamodb-url "$TO_URL" --output to.jsonl

# What never changes of each comment: its id, creation time and product.
identities() {
    sed -E 's/^\{"id":"([^"]+)","product":(".+"),"language":"[^"]+","rating":[1-5],"created_at":"([^"]+)",.*$/\1 \3 \2/' "$1" | sort
}
identities from.jsonl > from.identities
identities to.jsonl > to.identities
comm -13 from.identities to.identities | cut -d ' ' -f 1 > deleted.ids
sort from.jsonl > from.sorted
sort to.jsonl | comm -23 from.sorted - > changed.jsonl

while read -r id; do
    curl --silent --show-error --fail -X DELETE -H "Authorization: Bearer $TO_TOKEN" "$TO_API/comments/$id"
done < deleted.ids
if [ -s changed.jsonl ]; then
    "$PAGEMARK" import --update --table "$TO_TABLE" --dynamodb-url "$TO_URL" changed.jsonl
fi
echo "$(wc -l < deleted.ids) deleted, $(wc -l < changed.jsonl) new or changed"
