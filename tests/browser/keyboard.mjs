// Uses the pages of a product with a keyboard and without JavaScript. Input: {base, product, token}.

import { assert, assertEqual, input, launch, open, tab } from "./chromium.mjs";

const { base, product, token } = input();

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
  await page.keyboard.press("Tab");
  assert(await page.evaluate(() => document.activeElement.closest("main") !== null), "the skip link does not skip");

  await open(page, base + product);
  await tabTo(page, "the filter by rating 4", ({ text }) => text.startsWith("4 out of 5"));
  await enter(page);
  assertEqual(path(page), `${product}/~/4`, "the filter by rating");
  await tabTo(page, "the filter by language", ({ text }) => text.startsWith("English"));
  await enter(page);
  assertEqual(path(page), `${product}/en/4`, "the filter by language");
  await tabTo(page, "a chip", ({ text }) => text.startsWith("Remove Rating: 4"));
  await enter(page);
  assertEqual(path(page), `${product}/en`, "the chip");
  await tabTo(page, "the other order", ({ text }) => text === "Show the oldest first");
  await enter(page);
  assertEqual(path(page), `${product}/en?order=oldest`, "the other order");
  await tabTo(page, "the order of before", ({ text }) => text === "Show the newest first");
  await enter(page);
  assertEqual(path(page), `${product}/en`, "the order of before");
  await tabTo(page, "the next page", ({ text }) => text.startsWith("Next"));
  await enter(page);
  assertEqual(path(page), `${product}/en?page=2`, "the next page");
  await tabTo(page, "the first page", ({ text }) => text === "Page 1");
  await enter(page);
  assertEqual(path(page), `${product}/en`, "the first page");
  const link = await tabTo(page, "a permalink", ({ href }) => href?.startsWith("/comments/"));
  await enter(page);
  const target = await page.evaluate(() => document.querySelector("article:target")?.id);
  assertEqual(target, `comment-${link.href.split("/").pop()}`, "where the permalink leads");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

async function write(browser) {
  const page = await tab(browser);
  await open(page, base + product);
  await tabTo(page, "the form", ({ text }) => text === "Write a comment");
  await enter(page);
  const body = "First line\n  second line with <b>no markup</b>";
  const fill = async (values) => {
    for (const [name, value] of Object.entries(values)) {
      await tabTo(page, name, (now) => now.name === name);
      if (name === "rating") {
        await page.keyboard.press("ArrowRight");
        continue;
      }
      await page.keyboard.down("Control");
      await page.keyboard.press("KeyA");
      await page.keyboard.up("Control");
      await page.keyboard.type(value);
    }
    await tabTo(page, "the button", ({ text }) => text === "Post the comment");
    await enter(page);
  };
  // Make a mistake first: the form keeps all fields but the token.
  await fill({ rating: "2", language: "e_n", title: "By keyboard", body, author: "Ann O'Nymous", token });
  const told = await page.evaluate(() => document.querySelector("[role=alert]")?.innerText);
  assert(told?.startsWith("Language") && told.includes("e_n"), "the mistake is told as", told);
  const typed = await page.evaluate(() => {
    const value = (name) => document.querySelector(`[name=${name}]`).value;
    return [document.querySelector("[name=rating]:checked")?.value, value("title"), value("body"), value("author"), value("token")];
  });
  assertEqual(typed, ["2", "By keyboard", body, "Ann O'Nymous", ""], "what is left in the form");
  assertEqual(await page.evaluate(() => document.activeElement.getAttribute("name")), "language", "the focus after a mistake");
  await page.keyboard.down("Control");
  await page.keyboard.press("KeyA");
  await page.keyboard.up("Control");
  await page.keyboard.type("en");
  await fill({ token });
  assertEqual(path(page), product, "where the form leads");
  const shown = await page.evaluate(() => {
    const comment = document.querySelector("article:target");
    return comment && [comment.querySelector("h3").innerText, comment.querySelector(".text").textContent, comment.querySelector("bdi").innerText];
  });
  assertEqual(shown, ["By keyboard", body, "Ann O'Nymous"], "the new comment");
  await page.close();
}

const browser = await launch();
try {
  await browse(browser);
  await write(browser);
} finally {
  await browser.close();
}
