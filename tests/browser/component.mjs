// Uses the web component in a page of another site, which has styles of its own, with a keyboard and a mouse. Input: {base,
// product, style, screenshots}, where `style` is the documented one for the element.

import { join } from "node:path";
import { violations } from "./axe.mjs";
import { assert, assertEqual, becomes, input, launch } from "./chromium.mjs";

const { base, product, style, screenshots } = input();
const SHOP = "http://shop.example/espresso";

/** The page of the shop that shows this fragment, in a column of a width, with more attributes. */
const shopPage = ({ fragment, column, attributes, colours, shop }) => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Shop</title>
<style>
html { font-size: 62.5%; }
* { box-sizing: content-box; letter-spacing: 0; }
${shop === "dark" ? "html { color-scheme: dark; } body { background: #0b0c10; color: #ddd; }" : "body { background: #fff; color: #333; }"}
body { margin: 0; font: 1.6rem/1.4 serif; }
main { max-width: ${column}; margin: auto; }
a, button, h2 { color: #c00; text-transform: uppercase; }
ul, ol, article, section { margin: 3rem; border: 9px dotted #c00; list-style: square; }
${colours ? style : ""}
</style></head>
<body><main><h1>Espresso machine</h1>
<pagemark-comments ${attributes} src="${base}/fragment${fragment}"><a href="${base}${fragment}">Comments on the espresso machine</a></pagemark-comments>
</main><script defer src="${base}/static/pagemark-comments.js"></script></body></html>`;

/** A tab with the page of the shop. */
async function open(browser, fragment, options = {}) {
  const { width = 1280, column = "none", attributes = "", colours = false, shop = "light", dark = false, address = SHOP } = options;
  const page = await browser.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setRequestInterception(true);
  const isShop = (request) => request.isNavigationRequest() && request.url().startsWith(SHOP);
  page.on("request", (request) => {
    if (isShop(request)) request.respond({ contentType: "text/html", body: shopPage({ fragment, column, attributes, colours, shop }) });
    else request.continue();
  });
  await page.goto(address, { waitUntil: "load" });
  return page;
}

const shadow = `document.querySelector("pagemark-comments").shadowRoot`;
const count = `${shadow}.querySelectorAll("article").length`;
const first = `${shadow}.querySelector("article")?.id`;
/** What the page's address says about the list. */
const asked = (page) => new URL(page.url()).searchParams.get("comments");

/** Waits until another list is shown, and returns its first comment. */
async function turned(page, from) {
  await becomes(page, `${first} !== undefined && ${first} !== ${JSON.stringify(from)}`, true, "whether the page was turned");
  await becomes(page, `${shadow}.querySelector("section").ariaBusy`, "false", "whether it is busy");
  return page.evaluate(first);
}

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
  const newest = await turned(page);
  assertEqual(await page.evaluate(`getComputedStyle(${shadow}.querySelector("article")).borderTopStyle`), "solid", "the style");
  const summary = await page.evaluate(`${shadow}.querySelector(".average").textContent`);
  assert(/\d\.\d.*out of 5.* 600 comments/.test(summary), "the average and the total are", summary);
  assertEqual(await page.evaluate(`${shadow}.querySelectorAll(".ratings .bar").length`), 5, "the bars of the histogram");
  await tabToNext(page);
  await page.keyboard.press("Enter");
  const older = await turned(page, newest);
  await becomes(page, `${shadow}.activeElement?.tagName`, "SECTION", "the focus");
  assert(/^\?page=\d+$/.test(asked(page)), "the address is", page.url());
  const tree = await page.accessibility.snapshot({ interestingOnly: false });
  assert(found(tree, "region", "Comments"), "a screen reader finds no region named Comments");
  await tabToNext(page);
  await page.keyboard.press("Enter");
  const oldest = await turned(page, older);

  // Back and forward, and the same address in another tab.
  await page.goBack();
  assertEqual(await turned(page, oldest), older, "the first comment after Back");
  await page.goBack();
  assertEqual([await turned(page, older), page.url()], [newest, SHOP], "the list where the reader came from");
  await page.goForward();
  assertEqual(await turned(page, newest), older, "the first comment after Forward");
  const other = await open(browser, product, { address: page.url() });
  assertEqual(await turned(other), older, "the list in another tab");
  assertEqual([page.complaints, other.complaints], [[], []], "what the browser says");
  await other.close();
  await page.close();
}

/** Filters and the field for a page number stay inside, too. An address with another parameter keeps it. */
async function choose(browser) {
  const page = await open(browser, product, { address: `${SHOP}?size=2` });
  const newest = await turned(page);
  await page.evaluate(`${shadow}.querySelector(".languages a[href$='/fr']").click()`);
  const french = await turned(page, newest);
  assertEqual([asked(page), new URL(page.url()).searchParams.get("size")], ["/fr", "2"], page.url());
  await page.evaluate(`${shadow}.querySelector(".chips a").click()`);
  assertEqual([await turned(page, french), asked(page)], [newest, ""], "the list without a filter");
  await page.evaluate(`${shadow}.querySelector(".order a").click()`);
  const oldest = await turned(page, newest);
  await page.evaluate(`${shadow}.querySelector("#pages input[name=page]").focus()`);
  await page.keyboard.type("7");
  await page.keyboard.press("Enter");
  const seventh = await turned(page, oldest);
  assertEqual(asked(page), "?order=oldest&page=7", "the address");
  await page.goBack();
  assertEqual(await turned(page, seventh), oldest, "the list after Back");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

/** What does not fit into the element, and steps to a page that stand alone in their row beside another one. */
function misplaced() {
  const root = document.querySelector("pagemark-comments").shadowRoot;
  const { left, right } = root.host.getBoundingClientRect();
  const boxes = [...root.querySelectorAll("section *")].filter((element) => element.checkVisibility() && !element.closest(".hidden"));
  const outside = boxes.filter((element) => element.getBoundingClientRect().right > right + 1 || element.getBoundingClientRect().left < left - 1);
  const odd = outside.map((element) => `outside: ${element.outerHTML.slice(0, 200)}`);
  for (const bar of root.querySelectorAll(".pages")) {
    const tops = [...bar.querySelectorAll(".step[rel]")].map((step) => Math.round(step.getBoundingClientRect().top));
    if (new Set(tops).size > 1) odd.push(`steps in rows at ${tops}`);
  }
  return odd;
}

/** The ground of the element, and that of a comment. */
const grounds = `[document.querySelector("pagemark-comments"), ${shadow}.querySelector("article")].map((of) => getComputedStyle(of).backgroundColor)`;
const LIGHT = ["rgb(245, 246, 248)", "rgb(255, 255, 255)"];
const DARK = ["rgb(20, 22, 26)", "rgb(29, 32, 38)"];
const NONE = "rgba(0, 0, 0, 0)";

/** In columns of any width everything fits, and is readable in light and dark. Without a theme, the shop decides, with its ground. */
async function fit(browser) {
  const looks = [
    ["", "light", false, [NONE, LIGHT[1]]], ["", "light", true, [NONE, LIGHT[1]]],
    ["", "dark", false, [NONE, DARK[1]]], ["", "dark", true, [NONE, DARK[1]]],
    ["auto", "light", false, LIGHT], ["auto", "light", true, DARK],
    ["light", "dark", true, LIGHT], ["dark", "light", false, DARK],
  ];
  for (const column of ["32rem", "60rem", "96rem", "none"]) {
    for (const [theme, shop, dark, expected] of looks) {
      const page = await open(browser, `${product}?page=15`, { column, dark, shop, attributes: theme && `theme="${theme}"` });
      await turned(page);
      const where = `a column of ${column}, theme ${theme || "of the shop"}, a ${shop} shop, ${dark ? "dark" : "light"}`;
      if (screenshots) await page.screenshot({ path: join(screenshots, `component-${column}-${theme}-${shop}-${dark}.png`) });
      assertEqual(await page.evaluate(grounds), expected, `the grounds in ${where}`);
      assertEqual(await page.evaluate(misplaced), [], where);
      assertEqual(await violations(page, "pagemark-comments"), [], where);
      await page.close();
    }
  }
  for (const dark of [false, true]) {
    const page = await open(browser, product, { colours: true, dark, attributes: `theme="auto"` });
    await turned(page);
    const [back] = await page.evaluate(grounds);
    assertEqual(back, dark ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)", "the documented background");
    assertEqual(await violations(page, "pagemark-comments"), [], "the documented colours");
    await page.close();
  }
}

/** The feed is no list of comments: the browser goes there at once. */
async function leave(browser) {
  const page = await open(browser, product);
  const paths = [];
  page.on("request", (request) => paths.push(new URL(request.url()).pathname));
  await turned(page);
  paths.length = 0;
  const target = product.replace("/comments", "/feed");
  const left = page.waitForRequest((request) => new URL(request.url()).pathname === target);
  await page.evaluate(`${shadow}.querySelector('a[href*="/feed"]').click()`);
  await left;
  assertEqual(paths.filter((path) => path.startsWith("/fragment/")), [], "fragments that are no list");
  await page.close();
}

/** A made-up address shows the list of the page. JSON would be HTML here, with the texts of comments. */
async function stay(browser) {
  for (const which of ["/../../../../api/v1/products/x/comments", "/%2e%2e/%2e%2e/%2e%2e/products", "x", "//example.com/"]) {
    const page = await open(browser, product, { address: `${SHOP}?comments=${encodeURIComponent(which)}` });
    const shown = await turned(page);
    const front = await open(browser, product);
    assertEqual(shown, await turned(front), `the list of ${which}`);
    await page.close();
    await front.close();
  }
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
  await choose(browser);
  await leave(browser);
  await stay(browser);
  await fallBack(browser);
  await fit(browser);
  for (const width of screenshots ? [360, 768] : []) {
    const page = await open(browser, product, { width });
    await turned(page);
    await page.screenshot({ path: join(screenshots, `component-window-${width}.png`) });
    await page.close();
  }
} finally {
  await browser.close();
}
