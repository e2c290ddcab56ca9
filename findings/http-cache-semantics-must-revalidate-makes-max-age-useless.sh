#!/bin/sh
# http-cache-semantics 4.2.0 and newer: a response with `max-age` and `must-revalidate` is never answered from the cache
# without a request to the origin, however fresh it is. RFC 9111 (section 5.2.2.2) says that `must-revalidate` forbids
# the reuse of a response once it has become stale. 4.1.1 reuses the fresh one. So with this directive, readers behind a
# Node.js client with this library gain nothing from `max-age`.
#
# Seen: 4.1.1 reuses the fresh copy with and without `must-revalidate`; 4.2.0 and 4.3.0 only without it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund \
    v411@npm:http-cache-semantics@4.1.1 v420@npm:http-cache-semantics@4.2.0 v430@npm:http-cache-semantics@4.3.0 >&2
cat >try.cjs <<'NODE'
const request = { url: "/a", method: "GET", headers: {} };
const seen = {};
for (const [version, name] of [["4.1.1", "v411"], ["4.2.0", "v420"], ["4.3.0", "v430"]]) {
  const CachePolicy = require(name);
  seen[version] = ["max-age=30", "max-age=30, must-revalidate"].map((control) => {
    const headers = { "cache-control": `public, ${control}`, date: new Date().toUTCString() };
    const policy = new CachePolicy(request, { status: 200, headers });
    if (policy.timeToLive() <= 0) throw new Error("changed: the copy is not fresh");
    return policy.satisfiesWithoutRevalidation(request);
  });
}
console.log("fresh copy reused, without and with must-revalidate:", JSON.stringify(seen));
const expected = { "4.1.1": [true, true], "4.2.0": [true, false], "4.3.0": [true, false] };
if (JSON.stringify(seen) !== JSON.stringify(expected)) {
  console.error("changed: expected", JSON.stringify(expected));
  process.exit(1);
}
NODE
node try.cjs
