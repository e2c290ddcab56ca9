// Uses the web component in a page of another site, with a keyboard. Input: {base, product, screenshots}.

import { join } from "node:path";
import { assert, assertEqual, becomes, input, launch } from "./chromium.mjs";

const { base, product, screenshots } = input();
const SHOP = "http://shop.example/";

/** The page of the shop that shows this fragment. */
const shopPage = (fragment) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Shop</title></head>
<body><h1>Espresso machine</h1>
<pagemark-comments src="${base}/fragment${fragment}"><a href="${base}${fragment}">Comments on the espresso machine</a></pagemark-comments>
<script defer src="${base}/static/pagemark-comments.js"></script></body></html>`;

/** A tab with the page of the shop. */
async function open(browser, fragment, width = 1280) {
  const page = await browser.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.setViewport({ width, height: 900 });
  await page.setRequestInterception(true);
  const isShop = (request) => request.isNavigationRequest() && request.url() === SHOP;
  page.on("request", (request) => {
    if (isShop(request)) request.respond({ contentType: "text/html", body: shopPage(fragment) });
    else request.continue();
  });
  await page.goto(SHOP, { waitUntil: "load" });
  return page;
}

const shadow = `document.querySelector("pagemark-comments").shadowRoot`;
const count = `${shadow}.querySelectorAll("article").length`;
const first = `${shadow}.querySelector("article")?.id`;

/** Presses Tab until the link to the next page has the focus. */
async function tabToNext(page) {
  for (let pressed = 0; pressed < 200; pressed += 1) {
    await page.keyboard.press("Tab");
    if ((await page.evaluate(`${shadow}.activeElement?.rel`)) === "next") return;
  }
  throw new Error("the link to the next page cannot be reached with the keyboard");
}

/** The node of the accessibility tree with this role and name. */
function found(node, role, name) {
  if (node.role === role && node.name === name) return node;
  return (node.children ?? []).map((child) => found(child, role, name)).find(Boolean);
}

async function turnPages(browser) {
  const page = await open(browser, product);
  await becomes(page, `${count} > 0`, true, "whether the list is shown");
  const newest = await page.evaluate(first);
  assertEqual(await page.evaluate(`getComputedStyle(${shadow}.querySelector("article")).borderTopStyle`), "solid", "the style");
  await tabToNext(page);
  await page.keyboard.press("Enter");
  await becomes(page, `${first} !== ${JSON.stringify(newest)}`, true, "whether the page was turned");
  await becomes(page, `${shadow}.activeElement?.tagName`, "SECTION", "the focus");
  assertEqual(page.url(), SHOP, "the page of the shop");
  const tree = await page.accessibility.snapshot({ interestingOnly: false });
  assert(found(tree, "region", "Comments"), "a screen reader finds no region named Comments");
  const archived = await page.evaluate(first);
  await tabToNext(page);
  await page.keyboard.press("Enter");
  await becomes(page, `${first} !== ${JSON.stringify(archived)}`, true, "whether the page was turned again");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

/** The feed is no list of comments: the browser goes there at once. */
async function leave(browser) {
  const page = await open(browser, product);
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await becomes(page, `${count} > 0`, true, "whether the list is shown");
  asked.length = 0;
  const target = product.replace("/comments", "/feed");
  const left = page.waitForRequest((request) => new URL(request.url()).pathname === target);
  await page.evaluate(`${shadow}.querySelector('a[href*="/feed"]').click()`);
  await left;
  assertEqual(asked.filter((path) => path.startsWith("/fragment/")), [], "fragments that are no list");
  await page.close();
}

async function fallBack(browser) {
  const page = await open(browser, `${product}?page=999`);
  await becomes(page, `${shadow}.querySelector("section").ariaBusy`, "false", "whether it has given up");
  assertEqual(await page.evaluate(`document.querySelector("pagemark-comments a").checkVisibility()`), true, "the link");
  assertEqual(await page.evaluate(count), 0, "the list of a missing page");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

// Newer Chromium asks before a page may use this machine. Other browsers do not.
const browser = await launch(["--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"]);
try {
  await turnPages(browser);
  await leave(browser);
  await fallBack(browser);
  for (const width of screenshots ? [360, 1280] : []) {
    const page = await open(browser, product, width);
    await becomes(page, `${count} > 0`, true, "whether the list is shown");
    await page.screenshot({ path: join(screenshots, `component-${width}.png`) });
    await page.close();
  }
} finally {
  await browser.close();
}
