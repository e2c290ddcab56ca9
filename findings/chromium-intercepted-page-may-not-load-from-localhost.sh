#!/bin/sh
# Chromium with Puppeteer: a page that request interception answers may not load a script from this machine, although its
# address is http://localhost/ and the script allows every origin. The same page from a real server may. Chromium asks for a
# permission when a page of another address space loads from `loopback` (Local Network Access), and an intercepted page has
# none. So a test of an embedded list must serve the embedding page itself. Chromium 141 had no such check.
#
# Seen: Chromium 141.0.7390.0 loads the script in both cases; 153.0.8010.0 refuses it to the intercepted page.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund \
    v141@npm:@sparticuz/chromium@141.0.0 v153@npm:@sparticuz/chromium@153.0.0 puppeteer-core@25.16.0 >&2
cat >try.mjs <<'NODE'
import { createServer } from "node:http";
import puppeteer from "puppeteer-core";

const server = createServer((request, response) => {
  const isScript = request.url === "/list.js";
  response.setHeader("access-control-allow-origin", "*");
  response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
  response.end(isScript ? "globalThis.isLoaded = true" : embedding());
});
await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
const base = `http://127.0.0.1:${server.address().port}`;
const embedding = () => `<!doctype html><title>shop</title><script src="${base}/list.js"></script>`;

const { default: chromium } = await import(process.argv[2]);
const browser = await puppeteer.launch({
  executablePath: await chromium.executablePath(),
  headless: "shell",
  args: ["--no-sandbox", "--disable-gpu"],
});
const loads = async (address, isIntercepted) => {
  const page = await browser.newPage();
  if (isIntercepted) {
    await page.setRequestInterception(true);
    page.on("request", (request) =>
      request.url() === address
        ? request.respond({ status: 200, contentType: "text/html", body: embedding() })
        : request.continue());
  }
  await page.goto(address);
  return page.evaluate(() => globalThis.isLoaded === true);
};
const served = await loads(`${base}/`, false);
const intercepted = await loads("http://localhost:1/", true);
console.log(`${await browser.version()}: served ${served}, intercepted ${intercepted}`);
await browser.close();
server.close();
NODE
for version in v141 v153; do
    mkdir "$version"
    # Each version unpacks itself there.
    TMPDIR=$folder/$version node try.mjs "$version"
done >seen
cat seen
cat >expected <<'TEXT'
HeadlessChrome/141.0.7390.0: served true, intercepted true
HeadlessChrome/153.0.8010.0: served true, intercepted false
TEXT
diff expected seen || { echo "changed" >&2; exit 1; }
