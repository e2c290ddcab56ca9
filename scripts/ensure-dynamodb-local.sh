#!/bin/sh
# Ensures that target/dynamodb-local holds DynamoDB Local, AWS's own engine for tests. Maven fetches it once, in the
# version that scripts/dynamodb-local.xml names. Its licence permits use but not redistribution, so the project does not
# include it.
set -eu
. "$(dirname "$0")/system-packages.sh"
cd "$(dirname "$0")/.."

pom=scripts/dynamodb-local.xml
folder=${CARGO_TARGET_DIR:-target}/dynamodb-local

sh scripts/ensure-java.sh
command -v mvn >/dev/null 2>&1 || install_packages "Maven, for DynamoDB Local" maven maven maven maven

# The list of fetched files is written last, for this version. If it exists, the folder was complete once.
version=$(sed -n 's/.*<dynamodb-local.version>\(.*\)<.*/\1/p' "$pom")
list=$folder/$version.list
is_complete() {
    [ -s "$list" ] || return 1
    while read -r name; do
        [ -s "$folder/$name" ] || return 1
    done <"$list"
}

is_complete && exit 0
echo "fetching DynamoDB Local $version into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
if ! mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies \
    -DoutputDirectory="$(cd "$folder" && pwd)" -DincludeScope=runtime >"$folder/maven.log" 2>&1 </dev/null; then
    echo "Maven could not fetch DynamoDB Local $version; the whole of what it says is in $folder/maven.log:" >&2
    grep -m 3 ERROR "$folder/maven.log" >&2 || true
    exit 1
fi
(cd "$folder" && ls ./*.jar ./*sqlite4java*) >"$list.part"
grep -q "/DynamoDBLocal-$version.jar$" "$list.part" || {
    echo "Maven has fetched no DynamoDBLocal-$version.jar into $folder" >&2
    exit 1
}
mv "$list.part" "$list"
