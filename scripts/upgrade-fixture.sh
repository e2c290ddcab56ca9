#!/bin/sh
# upgrade-fixture.sh VERSION: writes tests/local/upgrade/VERSION by target/debug/pagemark: a data folder, a table, and exports.
# Tests start later versions on them. The comments are made up here. A fixture is written once, before its version is
# tagged, and never again.
set -eu
cd "$(dirname "$0")/.."
version=${1:?the version that pagemark has}
pagemark=${CARGO_TARGET_DIR:-target}/debug/pagemark
out=tests/local/upgrade/$version
[ ! -e "$out" ] || { echo "$out exists; a fixture is never written again" >&2; exit 1; }
work=$(mktemp -d)
stack=
trap '[ -z "$stack" ] || kill "$stack"; rm -rf "$work"' EXIT
token=upgrade-fixture-write-token-0123456789

start() {
    "$pagemark" up --data-dir "$work/data" --demo 0 --write-token $token --repair-every 1 \
        --listen 127.0.0.1:0 --dynamodb-listen 127.0.0.1:0 >"$work/out" 2>"$work/log" &
    stack=$!
    tries=0
    until grep -q '^ *metrics' "$work/out"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { cat "$work/log" >&2; exit 1; }
        sleep 0.1
    done
    api=$(sed -n 's|^ *API *\(http://[^ ]*[^/ ]\)/*\( .*\)*$|\1|p' "$work/out")
    engine=$(sed -n 's|^ *DynamoDB *\(http://[^/ ]*\).*|\1|p' "$work/out")
}

stop() {
    kill -INT "$stack"
    wait "$stack"
    stack=
}

call() { # METHOD PATH JSON
    curl --fail-with-body -sS -X "$1" "$api$2" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -d "$3"
}

dynamodb() { # OPERATION JSON
    curl --fail-with-body -sS "$engine/" -d "$2" -H "X-Amz-Target: DynamoDB_20120810.$1" \
        -H 'Content-Type: application/x-amz-json-1.0' -H 'X-Amz-Date: 20260101T000000Z' \
        -H 'Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/local/dynamodb/aws4_request, SignedHeaders=host, Signature=0'
}

start
long=$(printf 'A long text that is worth compressing. %.0s' 1 2 3 4 5 6 7 8 9)
for line in \
    '{"id":"first","product":"a/b","language":"en","rating":5,"created_at":"2020-11-09T12:00:00.123Z","title":"Good","body":"Fine.","author":"Ada"}' \
    '{"id":"same-instant","product":"a/b","language":"pt-BR","rating":1,"created_at":"2020-11-09T12:00:00.123Z","body":"Ruim."}' \
    '{"id":"edited","product":"a/b","language":"fr","rating":2,"created_at":"2021-02-28T23:59:59.999Z","body":"Bof."}' \
    '{"id":"deleted","product":"a/b","language":"en","rating":3,"created_at":"2022-01-01T00:00:00Z","body":"Gone."}' \
    '{"id":"tools","product":"☕ 100%","language":"en","rating":4,"created_at":"2023-06-01T06:00:00Z","body":"Counted by a tool."}' \
    '{"id":"hidden","product":"a/b","language":"en","rating":1,"created_at":"2024-05-01T00:00:00Z","body":"Rude.","status":"hidden"}' \
    '{"id":"pending","product":"c","language":"ja","rating":5,"created_at":"2024-06-01T00:00:00Z","body":"良い。","status":"pending"}' \
    '{"id":"own-data","product":"c","language":"en","rating":4,"created_at":"2024-07-01T00:00:00Z","body":"Bought here.","attributes":{"verified":true,"price":1.0},"author_id":"u/7"}'
do
    echo "$line"
done >"$work/map.jsonl"
echo '{"id":"compressed","product":"☕ 100%","language":"de","rating":4,"created_at":"2024-02-29T12:00:00Z","body":"'"$long"'"}' \
    >"$work/zstd.jsonl"
"$pagemark" import --dynamodb-url "$engine" --table pagemark "$work/map.jsonl"
"$pagemark" import --dynamodb-url "$engine" --table pagemark --comment-blob zstd "$work/zstd.jsonl"
call PATCH /comments/edited '{"rating":4,"title":"Finalement bien"}' >/dev/null
call DELETE /comments/deleted '' >/dev/null
call PUT /products/a%2Fb '{"name":"Espresso machine","brand":"Ada","gtin":"4006381333931"}' >/dev/null
call POST /products/a%2Fb/comments '{"language":"en","rating":5,"body":"Posted with the API."}' >/dev/null
# What another tool added, in the item and in its text.
dynamodb UpdateItem '{"TableName":"pagemark","Key":{"pk":{"S":"COMMENT#tools"},"sk":{"S":"PRODUCT#☕%20100%25/~/~"}},
    "ConditionExpression":"attribute_exists(pk)","UpdateExpression":"SET votes = :v, comment_blob.photos = :v",
    "ExpressionAttributeValues":{":v":{"N":"7"}}}' >/dev/null
stop

mkdir -p "$out/data"
for file in "$work"/data/*; do
    case $file in *.lock | *-shm) continue ;; esac
    [ ! -f "$file" ] || gzip -9nc "$file" >"$out/data/${file##*/}.gz"
done
start
dynamodb Scan '{"TableName":"pagemark"}' | gzip -9n >"$out/table.json.gz"
"$pagemark" export --dynamodb-url "$engine" --table pagemark --output "$out/comments.jsonl" --products "$out/products.jsonl"
stop
du -ah "$out"
