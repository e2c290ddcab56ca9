// Looks at pages on a small phone, in a large window, and in forced colours. Input: {base, pages, screenshots}. Prints the
// place of the first comment of each page.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { assert, assertEqual, input, launch, open, tab } from "./chromium.mjs";

const { base, pages, screenshots } = input();
const PHONE = { width: 360, height: 780, deviceScaleFactor: 1, hasTouch: true, isMobile: true };

/** The end of the histogram, and the tops of the list's heading and of its first comment in the window, in pixels. */
function tops() {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  return { histogram: box(".ratings").bottom, list: box("#comments").top, comment: Math.round(box("article").top) };
}

/** Whether the languages are shown, and whether the line that opens them is. */
function filters() {
  const isShown = (selector) => document.querySelector(selector).checkVisibility();
  return { choices: isShown(".filters .languages"), summary: isShown(".filters summary") };
}

async function picture(page, name) {
  if (!screenshots) return;
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: false });
}

async function onAPhone(browser, path, at) {
  const page = await tab(browser, { width: PHONE.width });
  await page.setViewport(PHONE);
  await open(page, base + path);
  const { histogram, comment } = await page.evaluate(tops);
  console.log(`${path}: the first comment begins at y = ${comment}`);
  await picture(page, `phone-${at}`);
  assert(histogram < PHONE.height / 2, path, "its histogram ends at", histogram);
  assert(comment < (PHONE.height * 3) / 4, path, "its first comment begins at", comment);
  assertEqual(await page.evaluate(filters), { choices: false, summary: true }, `the filters of ${path}`);
  const next = await page.$(".pages.head [rel=next]");
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), next.click()]);
  const after = await page.evaluate(tops);
  assert(after.list >= 0 && after.list < 40 && after.comment < PHONE.height / 2, "the page after", path, "shows", after);
  await (await page.$(".filters summary")).click();
  assertEqual(await page.evaluate(filters), { choices: true, summary: true }, `the opened filters of ${path}`);
  await page.close();
}

/** The rows of the bar of pages at the foot, and where the filters are after a reader has scrolled to it. */
function foot() {
  const steps = [...document.querySelectorAll("#pages a, #pages button")].filter((step) => step.checkVisibility());
  const rows = new Set(steps.map((step) => Math.round(step.getBoundingClientRect().top))).size;
  scrollTo(0, document.body.scrollHeight);
  return { rows, filters: document.querySelector(".filters").getBoundingClientRect().top >= 0 };
}

async function inALargeWindow(browser, path, at) {
  for (const width of [768, 1280]) {
    const page = await tab(browser, { width });
    await open(page, base + path);
    const { rows, filters: areInView } = await page.evaluate(foot);
    assert(width > 768 || rows === 1, path, "has a bar of pages with", rows, "rows");
    assertEqual(areInView, width === 1280, `whether the filters of ${path} stay in view at ${width} px`);
    assertEqual(await page.evaluate(filters), { choices: true, summary: false }, `the filters of ${path} at ${width} px`);
    await picture(page, `window-${width}-${at}`);
    await page.close();
  }
}

/** In forced colours, browsers take away backgrounds and shadows. */
async function inForcedColours(browser, path) {
  const page = await tab(browser);
  const client = await page.createCDPSession();
  await client.send("Emulation.setEmulatedMedia", { features: [{ name: "forced-colors", value: "active" }] });
  await open(page, base + path);
  const borders = await page.evaluate(() => {
    const width = (element) => getComputedStyle(element).borderTopWidth;
    const all = (selector) => [...document.querySelectorAll(selector)].map(width);
    return { chosen: all(".ratings [aria-current]"), others: all(".ratings a:not([aria-current])") };
  });
  await picture(page, "forced-colours");
  assertEqual(borders, { chosen: ["3px", "3px"], others: ["0px", "0px", "0px"] }, "the borders of chosen ratings");
  await page.close();
}

/** The field for a page number leads to that page, by keyboard and without scripts. */
async function goTo(browser, path) {
  const page = await tab(browser);
  await open(page, base + path);
  await page.focus("#pages input[name=page]");
  await page.keyboard.type("7");
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("Enter")]);
  const reached = new URL(page.url());
  assertEqual(new URLSearchParams(reached.search).get("page"), "7", "the page");
  assertEqual(reached.search.includes("order=oldest"), path.includes("order=oldest"), "the order");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

const browser = await launch();
try {
  for (const [at, path] of pages.entries()) {
    await onAPhone(browser, path, at);
    await inALargeWindow(browser, path, at);
  }
  const filtered = pages.find((path) => path.includes("/1.5"));
  await inForcedColours(browser, filtered);
  await goTo(browser, pages[0]);
  await goTo(browser, pages.find((path) => path.includes("order=oldest")));
} finally {
  await browser.close();
}
