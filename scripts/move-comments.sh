#!/bin/sh
# One round of a move: makes the comments of the stack TO those of the stack FROM. See docs/moving.md.
#
# Usage: sh scripts/move-comments.sh FOLDER. The folder keeps both exports of the round, from.jsonl and to.jsonl.
#
# FROM_TABLE and FROM_URL name the old table and its engine; the URL `aws` is the endpoint of AWS. TO_TABLE and TO_URL
# name the new table. TO_API is the new API, such as https://comments.example.com/api/v1. TO_TOKEN is a token of it that
# deletes comments (comments:write).
# PAGEMARK is the program, if it is not on the PATH. MAX_DELETED is how many comments the round may delete; the default
# is 100, or 1 % of the comments in the new table if that is more.
set -eu
: "${FROM_TABLE:?}" "${FROM_URL:?}" "${TO_TABLE:?}" "${TO_URL:?}" "${TO_API:?}" "${TO_TOKEN:?}"
PAGEMARK=${PAGEMARK:-pagemark}
# By bytes, so that sort and comm agree.
LC_ALL=C
export LC_ALL

fail() {
    echo "$1" >&2
    exit 1
}
[ "$FROM_TABLE $FROM_URL" != "$TO_TABLE $TO_URL" ] || fail "FROM and TO are the same table: nothing was changed"

mkdir -p "$1"
cd "$1"
mkdir lock || fail "another round runs in $1; if it was killed and none of its commands runs, remove the folder $1/lock"
round=
trap 'rm -rf "$round"; rmdir lock' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM
round=$(mktemp -d lock/round.XXXXXX)

"$PAGEMARK" export --table "$FROM_TABLE" --dynamodb-url "$FROM_URL" --output from.jsonl
"$PAGEMARK" export --table "$TO_TABLE" --dynamodb-url "$TO_URL" --output to.jsonl
[ -s from.jsonl ] || fail "$FROM_TABLE at $FROM_URL has no comments: nothing was changed"

# What never changes of each comment: its id, creation time and product. No pipes: set -e sees only their last command.
identities() {
    sed -nE 's/^\{"id":"([^"]+)","product":(".+"),"language":"[^"]+","rating":[1-5],"created_at":"([^"]+)",.*$/\1 \3 \2/p' \
        "$1.jsonl" > "$round/unsorted"
    sort "$round/unsorted" > "$round/$1.identities"
    [ "$(wc -l < "$round/$1.identities")" -eq "$(wc -l < "$1.jsonl")" ] ||
        fail "$1.jsonl has lines that this script cannot read: nothing was changed"
    sort "$1.jsonl" > "$round/$1.sorted"
}
identities from
identities to
comm -13 "$round/from.identities" "$round/to.identities" > "$round/deleted"
comm -23 "$round/from.sorted" "$round/to.sorted" > "$round/changed.jsonl"

deleted=$(wc -l < "$round/deleted")
comments=$(wc -l < to.jsonl)
most=$((comments / 100 > 100 ? comments / 100 : 100))
[ "$deleted" -le "${MAX_DELETED:-$most}" ] ||
    fail "$deleted of $comments comments would be deleted: nothing was changed; if that is right, set MAX_DELETED=$deleted"

while read -r id _; do
    # The token comes from a pipe, because everyone on the machine can read the arguments of a command.
    status=$(printf 'Authorization: Bearer %s\n' "$TO_TOKEN" |
        curl --silent --show-error --header @- --output /dev/null --write-out '%{http_code}' \
            --request DELETE "$TO_API/comments/$id")
    case $status in
    204 | 404) ;; # 404: it has gone already
    *) fail "$TO_API answers the deletion of $id by $status; it must be 204" ;;
    esac
done < "$round/deleted"
if [ -s "$round/changed.jsonl" ]; then
    "$PAGEMARK" import --update --table "$TO_TABLE" --dynamodb-url "$TO_URL" "$round/changed.jsonl"
fi
echo "$deleted deleted, $(wc -l < "$round/changed.jsonl") new or changed"
