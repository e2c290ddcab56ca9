// Calls the engine's port like a script in a web page. Every request must be refused. Input: {port}.

import { assertEqual, input, launch } from "./chromium.mjs";

const { port } = input();

/** The script's result: the status, or `no answer` when the browser shows it none. */
async function listTables(url) {
  const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.ListTables", "x-amz-date": "20250101T000000Z" };
  headers.authorization = "AWS4-HMAC-SHA256 Credential=a/20250101/local/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=a";
  try {
    return (await fetch(url, { method: "POST", headers, body: "{}" })).status;
  } catch {
    return "no answer";
  }
}

const browser = await launch([
  // Like an attacker's name server, gives a name the address of this machine.
  "--host-resolver-rules=MAP rebound.example 127.0.0.1",
  // Newer Chromium asks before a page may use this machine. Other browsers do not.
  "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
]);
try {
  const page = await browser.newPage();
  await page.setRequestInterception(true);
  // The test itself answers requests for pages.
  const isPage = (request) => request.isNavigationRequest();
  page.on("request", (request) => (isPage(request) ? request.respond({ contentType: "text/html", body: "a page" }) : request.continue()));
  for (const [from, to, expected] of [
    [`http://rebound.example:${port}/`, `http://rebound.example:${port}/`, 403],
    ["http://127.0.0.1:1/", `http://127.0.0.1:${port}/`, "no answer"],
    ["http://elsewhere.example/", `http://127.0.0.1:${port}/`, "no answer"],
  ]) {
    await page.goto(from, { waitUntil: "load" });
    assertEqual(await page.evaluate(listTables, to), expected, `a request from ${from} to ${to}`);
  }
} finally {
  await browser.close();
}
