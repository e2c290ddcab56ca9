// Uses the pages of a product with a keyboard and without JavaScript. Input: {base, product}.

import { assert, assertEqual, becomes, input, launch, open, tab } from "./chromium.mjs";

const { base, product } = input();

/** The element with the focus: its text, address and name, and whether the focus is visible. */
function focused() {
  const element = document.activeElement;
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  return {
    text: element.innerText?.replace(/\s+/g, " ").trim() ?? "",
    href: element.getAttribute("href"),
    name: element.getAttribute("name"),
    isSeen: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.top >= 0) || element === document.body,
  };
}

/** Presses Tab until an element that fits has the focus. Every element on the way must show its focus. */
async function tabTo(page, what, fits) {
  const passed = [];
  for (let pressed = 0; pressed < 200; pressed += 1) {
    await page.keyboard.press("Tab");
    const now = await page.evaluate(focused);
    assert(now.isSeen, "the focus is not seen on", now);
    if (fits(now)) return now;
    passed.push(now.text || now.name);
  }
  throw new Error(`${what} cannot be reached with the keyboard: ${passed}`);
}

async function enter(page) {
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("Enter")]);
}

const path = (page) => new URL(page.url()).pathname + new URL(page.url()).search;

async function browse(browser) {
  const page = await tab(browser);
  await open(page, base + product);
  const skip = await tabTo(page, "the first stop", () => true);
  assertEqual(skip.text, "Skip to the content", "the first stop");
  await page.keyboard.press("Enter");
  await becomes(page, () => document.querySelector(":target")?.id, skip.href.slice(1), "the target of the skip link");
  await page.keyboard.press("Tab");
  await becomes(page, () => document.activeElement.closest("main") !== null, true, "whether the skip link skips");

  await open(page, base + product);
  for (const [what, link, leadsTo] of [
    ["the filter by rating", /^4 out of 5/, "/~/4"],
    ["the filter by language", /^English/, "/en/4"],
    ["the chip", /^Remove Rating: 4/, "/en"],
    ["the other order", /^Show the oldest first$/, "/en?order=oldest"],
    ["the order of before", /^Show the newest first$/, "/en"],
    ["the next page", /^Older/, "/en?page=15"],
    ["the first page", /^Newest$/, "/en"],
  ]) {
    await tabTo(page, what, ({ text }) => link.test(text));
    await enter(page);
    assertEqual(path(page), product + leadsTo, what);
  }
  const link = await tabTo(page, "a permalink", ({ href }) => href?.startsWith("/comments/"));
  await enter(page);
  const target = await page.evaluate(() => document.querySelector("article:target")?.id);
  assertEqual(target, `comment-${link.href.split("/").pop()}`, "where the permalink leads");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

const browser = await launch();
try {
  await browse(browser);
} finally {
  await browser.close();
}
