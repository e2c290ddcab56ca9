#!/bin/sh
# Sees to it that target/node-tools holds what tests/browser/package.json names: what the tests of the pages drive a browser
# with. On a continuous-integration machine (CI=true) that allows it, a missing Node.js is installed.
set -eu
. "$(dirname "$0")/packages.sh"
cd "$(dirname "$0")/.."

source=$PWD/tests/browser
folder=${CARGO_TARGET_DIR:-target}/node-tools
# The lock file is copied there last: with it, everything was installed once, and for this version of it.
cmp -s "$source/package-lock.json" "$folder/installed.json" && [ -e "$folder/browser" ] && command -v node >/dev/null 2>&1 && exit 0

# Lighthouse asks for Node.js 22; it runs on 20 too, which is what Debian has.
is_there() {
    command -v npm >/dev/null 2>&1 && node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' 2>/dev/null
}

if ! is_there && [ "${CI:-}" = true ] && command -v apt-get >/dev/null 2>&1; then
    echo "Node.js 20 or newer was not found; installing it" >&2
    {
        install_debian nodejs npm
    } >&2 </dev/null || true
fi
if ! is_there; then
    echo "The tests need Node.js 20 or newer with npm, to drive a browser. Install it:" >&2
    echo "  Debian, Ubuntu: sudo apt-get install nodejs npm, or https://nodejs.org where that is too old" >&2
    echo "  Fedora:         sudo dnf install nodejs" >&2
    echo "  Alpine:         sudo apk add nodejs npm" >&2
    echo "  macOS:          brew install node" >&2
    exit 1
fi

echo "installing the Node.js packages of tests/browser into $folder" >&2
rm -rf "$folder"
mkdir -p "$folder"
cp "$source/package.json" "$source/package-lock.json" "$folder/"
# The packages are found from where a script is; so it is reached by a link beside them.
ln -s "$source" "$folder/browser"
if ! npm --prefix "$folder" ci --ignore-scripts --no-audit --no-fund >"$folder.log" 2>&1 </dev/null; then
    echo "npm could not install them; the end of what it says ($folder.log):" >&2
    tail -n 5 "$folder.log" >&2
    exit 1
fi
cp "$source/package-lock.json" "$folder/installed.json"
